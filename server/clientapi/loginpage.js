"use strict";
// Only what the login endpoint takes besides credentials is forwarded to it.
const query = new URLSearchParams(location.search);
const request = { type: "m.login.password" };
for (const key of ["device_id", "initial_device_display_name"]) {
  if (query.has(key)) request[key] = query.get(key);
}
if (query.get("refresh_token") === "true") request.refresh_token = true;

const form = document.getElementById("login");
const problem = document.getElementById("error");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  problem.textContent = "";
  try {
    const response = await fetch("/_matrix/client/v3/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        ...request,
        identifier: { type: "m.id.user", user: document.getElementById("user").value.trim() },
        password: document.getElementById("password").value,
      }),
    });
    const body = await response.json();
    if (!response.ok) throw new Error(body.error || "the server refused");
    if (window.matrixLogin && window.matrixLogin.onLogin) window.matrixLogin.onLogin(body);
    form.textContent = "You are logged in. You can close this window and go back to your app.";
  } catch (err) {
    problem.textContent = "Could not log in: " + err.message;
    button.disabled = false;
  }
});
