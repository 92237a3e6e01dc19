package remote

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"hearth/storage/matrix"
)

const zeroSig = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func TestParseAuthorization(t *testing.T) {
	t.Parallel()
	full := XMatrix{Origin: "a.example", Destination: "b.example", Key: "ed25519:k1", Sig: zeroSig}
	old := full
	old.Destination = ""
	ported := full
	ported.Origin = "[::1]:8448"
	for name, c := range map[string]struct {
		header string
		want   XMatrix
		bad    bool
	}{
		"as the specification writes it": {header: `X-Matrix origin="a.example",destination="b.example",key="ed25519:k1",sig="` + zeroSig + `"`, want: full},
		"without destination":            {header: `X-Matrix origin="a.example",key="ed25519:k1",sig="` + zeroSig + `"`, want: old},
		"tokens without quotes":          {header: `X-Matrix origin=a.example,destination=b.example,key=ed25519:k1,sig=` + zeroSig, want: full},
		"names in capitals, other order": {header: `x-matrix SIG="` + zeroSig + `",Key="ed25519:k1",DESTINATION=b.example,Origin=a.example`, want: full},
		"blanks around commas":           {header: "X-Matrix   origin=a.example \t,\t destination=b.example , key=ed25519:k1,sig=" + zeroSig, want: full},
		"escapes":                        {header: `X-Matrix origin="a\.exam\ple",destination=b.example,key="ed25519:k1",sig="` + zeroSig + `"`, want: full},
		"unknown parameters":             {header: `X-Matrix origin=a.example,x="a,b=\"c",destination=b.example,key=ed25519:k1,sig=` + zeroSig, want: full},
		"an IPv6 literal without quotes": {header: `X-Matrix origin=[::1]:8448,destination=b.example,key=ed25519:k1,sig=` + zeroSig, want: ported},
		"padded signature":               {header: `X-Matrix origin=a.example,destination=b.example,key=ed25519:k1,sig=` + zeroSig + `==`, want: XMatrix{Origin: "a.example", Destination: "b.example", Key: "ed25519:k1", Sig: zeroSig + "=="}},
		"other scheme":                   {header: `Bearer origin=a.example`, bad: true},
		"no parameters":                  {header: `X-Matrix `, bad: true},
		"scheme alone":                   {header: `X-Matrix`, bad: true},
		"no origin":                      {header: `X-Matrix key=ed25519:k1,sig=` + zeroSig, bad: true},
		"origin that is no server name":  {header: `X-Matrix origin="a/b",key=ed25519:k1,sig=` + zeroSig, bad: true},
		"empty destination":              {header: `X-Matrix origin=a.example,destination="",key=ed25519:k1,sig=` + zeroSig, bad: true},
		"parameter twice":                {header: `X-Matrix origin=a.example,origin=c.example,key=ed25519:k1,sig=` + zeroSig, bad: true},
		"parameter twice, other case":    {header: `X-Matrix origin=a.example,ORIGIN=c.example,key=ed25519:k1,sig=` + zeroSig, bad: true},
		"unknown algorithm":              {header: `X-Matrix origin=a.example,key=rsa:k1,sig=` + zeroSig, bad: true},
		"short signature":                {header: `X-Matrix origin=a.example,key=ed25519:k1,sig=AAAA`, bad: true},
		"open quote":                     {header: `X-Matrix origin="a.example,key=ed25519:k1`, bad: true},
		"no comma":                       {header: `X-Matrix origin=a.example key=ed25519:k1,sig=` + zeroSig, bad: true},
		"control character":              {header: "X-Matrix origin=\"a.example\x00\",key=ed25519:k1,sig=" + zeroSig, bad: true},
		"too long":                       {header: `X-Matrix x="` + strings.Repeat("a", maxAuthorization) + `"`, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseAuthorization(c.header)
			if (err != nil) != c.bad || err == nil && got != c.want {
				t.Errorf("got %+v, %v, want %+v, refused %t", got, err, c.want, c.bad)
			}
		})
	}
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer := matrix.Signer{Server: "a.example", KeyID: "ed25519:k1", Key: key}
	const uri = "/_matrix/federation/v1/send/1?x=%2F"
	body := []byte(`{"b":[1, 2],"a":"ü"}`)
	header, err := authorize("PUT", uri, "b.example", body, signer)
	if err != nil {
		t.Fatal(err)
	}
	x, err := ParseAuthorization(header)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Verify("PUT", uri, "b.example", []byte(`{"a":"ü","b":[1,2]}`), pub); err != nil {
		t.Errorf("the same JSON: %v", err)
	}
	unnamed := x
	unnamed.Destination = ""
	if err := unnamed.Verify("PUT", uri, "b.example", body, pub); err != nil {
		t.Errorf("destination signed but not named: %v", err)
	}
	other := x
	other.Origin = "c.example"
	for name, err := range map[string]error{
		"method":      x.Verify("POST", uri, "b.example", body, pub),
		"uri":         x.Verify("PUT", uri+"&y=1", "b.example", body, pub),
		"body":        x.Verify("PUT", uri, "b.example", []byte(`{"a":"u","b":[1,2]}`), pub),
		"no body":     x.Verify("PUT", uri, "b.example", nil, pub),
		"origin":      other.Verify("PUT", uri, "b.example", body, pub),
		"destination": unnamed.Verify("PUT", uri, "c.example", body, pub),
		"no key":      x.Verify("PUT", uri, "b.example", body, nil),
		"twice a key": x.Verify("PUT", uri, "b.example", []byte(`{"a":"x","a":"ü","b":[1,2]}`), pub),
	} {
		if err == nil {
			t.Errorf("%s: a signature of something else is taken", name)
		}
	}
}

func FuzzParseAuthorization(f *testing.F) {
	f.Add(`X-Matrix origin="a.example",destination="b.example",key="ed25519:k1",sig="` + zeroSig + `"`)
	f.Add(`x-matrix ORIGIN=[::1]:8448 , key=ed25519:k1,sig=` + zeroSig)
	f.Add(`X-Matrix origin="a\"b",x=1`)
	f.Fuzz(func(t *testing.T, header string) {
		x, err := ParseAuthorization(header)
		if err != nil {
			return
		}
		if _, err := matrix.ParseServerName(string(x.Origin)); err != nil {
			t.Errorf("origin %q: %v", x.Origin, err)
		}
		again := `X-Matrix origin="` + string(x.Origin) + `",key="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(string(x.Key)) + `",sig="` + x.Sig + `"`
		if x.Destination != "" {
			again += `,destination="` + string(x.Destination) + `"`
		}
		if y, err := ParseAuthorization(again); err != nil || x != y {
			t.Errorf("%q reads as %+v, written again as %+v, %v", header, x, y, err)
		}
	})
}
