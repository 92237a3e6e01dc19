package acceptance

// specified is every endpoint that the specification (v1.19) asks of a
// homeserver, by what brings it. "later" is answered as an unknown endpoint
// until then; a line becomes "served" together with its route.
var specified = []module{
	{"OpenID", `
		later  POST   /_matrix/client/v3/user/{userId}/openid/request_token
		later  GET    /_matrix/federation/v1/openid/userinfo
	`},
	{"account data and filters", `
		served GET    /_matrix/client/v3/user/{userId}/account_data/{type}
		served PUT    /_matrix/client/v3/user/{userId}/account_data/{type}
		served POST   /_matrix/client/v3/user/{userId}/filter
		served GET    /_matrix/client/v3/user/{userId}/filter/{filterId}
		served GET    /_matrix/client/v3/user/{userId}/rooms/{roomId}/account_data/{type}
		served PUT    /_matrix/client/v3/user/{userId}/rooms/{roomId}/account_data/{type}
	`},
	{"accounts", `
		served POST   /_matrix/client/v1/login/get_token
		served GET    /_matrix/client/v1/register/m.login.registration_token/validity
		served POST   /_matrix/client/v3/account/deactivate
		served POST   /_matrix/client/v3/account/password
		served GET    /_matrix/client/v3/account/whoami
		served GET    /_matrix/client/v3/login
		served POST   /_matrix/client/v3/login
		served POST   /_matrix/client/v3/logout
		served POST   /_matrix/client/v3/logout/all
		served POST   /_matrix/client/v3/refresh
		served POST   /_matrix/client/v3/register
		served GET    /_matrix/client/v3/register/available
	`},
	{"administration", `
		served GET    /_matrix/client/v1/admin/lock/{userId}
		served PUT    /_matrix/client/v1/admin/lock/{userId}
		served GET    /_matrix/client/v1/admin/suspend/{userId}
		served PUT    /_matrix/client/v1/admin/suspend/{userId}
		served GET    /_matrix/client/v3/admin/whois/{userId}
	`},
	{"application services", `
		later  POST   /_matrix/client/v1/appservice/{appserviceId}/ping
		later  PUT    /_matrix/client/v3/directory/list/appservice/{networkId}/{roomId}
		later  GET    /_matrix/client/v3/thirdparty/location
		later  GET    /_matrix/client/v3/thirdparty/location/{protocol}
		later  GET    /_matrix/client/v3/thirdparty/protocol/{protocol}
		later  GET    /_matrix/client/v3/thirdparty/protocols
		later  GET    /_matrix/client/v3/thirdparty/user
		later  GET    /_matrix/client/v3/thirdparty/user/{protocol}
	`},
	{"calls", `
		served GET    /_matrix/client/v3/voip/turnServer
	`},
	{"devices", `
		served POST   /_matrix/client/v3/delete_devices
		served GET    /_matrix/client/v3/devices
		served GET    /_matrix/client/v3/devices/{deviceId}
		served PUT    /_matrix/client/v3/devices/{deviceId}
		served DELETE /_matrix/client/v3/devices/{deviceId}
	`},
	{"discovery", `
		served GET    /_matrix/client/v3/capabilities
		served GET    /_matrix/client/versions
		served GET    /.well-known/matrix/client
		served GET    /.well-known/matrix/server
		served GET    /.well-known/matrix/support
	`},
	{"end-to-end encryption", `
		later  GET    /_matrix/client/v3/keys/changes
		later  POST   /_matrix/client/v3/keys/claim
		later  POST   /_matrix/client/v3/keys/device_signing/upload
		later  POST   /_matrix/client/v3/keys/query
		later  POST   /_matrix/client/v3/keys/signatures/upload
		later  POST   /_matrix/client/v3/keys/upload
		later  GET    /_matrix/federation/v1/user/devices/{userId}
		later  POST   /_matrix/federation/v1/user/keys/claim
		later  POST   /_matrix/federation/v1/user/keys/query
	`},
	{"event streams of old clients", `
		served GET    /_matrix/client/v3/events
		served GET    /_matrix/client/v3/events/{eventId}
		later  GET    /_matrix/client/v3/initialSync
	`},
	{"key backup", `
		later  GET    /_matrix/client/v3/room_keys/keys
		later  PUT    /_matrix/client/v3/room_keys/keys
		later  DELETE /_matrix/client/v3/room_keys/keys
		later  GET    /_matrix/client/v3/room_keys/keys/{roomId}
		later  PUT    /_matrix/client/v3/room_keys/keys/{roomId}
		later  DELETE /_matrix/client/v3/room_keys/keys/{roomId}
		later  GET    /_matrix/client/v3/room_keys/keys/{roomId}/{sessionId}
		later  PUT    /_matrix/client/v3/room_keys/keys/{roomId}/{sessionId}
		later  DELETE /_matrix/client/v3/room_keys/keys/{roomId}/{sessionId}
		later  GET    /_matrix/client/v3/room_keys/version
		later  POST   /_matrix/client/v3/room_keys/version
		later  GET    /_matrix/client/v3/room_keys/version/{version}
		later  PUT    /_matrix/client/v3/room_keys/version/{version}
		later  DELETE /_matrix/client/v3/room_keys/version/{version}
	`},
	{"media", `
		later  GET    /_matrix/client/v1/media/config
		later  GET    /_matrix/client/v1/media/download/{serverName}/{mediaId}
		later  GET    /_matrix/client/v1/media/download/{serverName}/{mediaId}/{fileName}
		later  GET    /_matrix/client/v1/media/preview_url
		later  GET    /_matrix/client/v1/media/thumbnail/{serverName}/{mediaId}
		later  POST   /_matrix/media/v1/create
		later  GET    /_matrix/media/v3/config
		later  GET    /_matrix/media/v3/download/{serverName}/{mediaId}
		later  GET    /_matrix/media/v3/download/{serverName}/{mediaId}/{fileName}
		later  GET    /_matrix/media/v3/preview_url
		later  GET    /_matrix/media/v3/thumbnail/{serverName}/{mediaId}
		later  POST   /_matrix/media/v3/upload
		later  PUT    /_matrix/media/v3/upload/{serverName}/{mediaId}
		later  GET    /_matrix/federation/v1/media/download/{mediaId}
		later  GET    /_matrix/federation/v1/media/thumbnail/{mediaId}
	`},
	{"policy servers, which a homeserver is not", `
		later  GET    /.well-known/matrix/policy_server
	`},
	{"presence, typing and receipts", `
		later  GET    /_matrix/client/v3/presence/{userId}/status
		later  PUT    /_matrix/client/v3/presence/{userId}/status
		later  POST   /_matrix/client/v3/rooms/{roomId}/read_markers
		later  POST   /_matrix/client/v3/rooms/{roomId}/receipt/{receiptType}/{eventId}
		later  PUT    /_matrix/client/v3/rooms/{roomId}/typing/{userId}
	`},
	{"profiles", `
		later  GET    /_matrix/client/v3/profile/{userId}
		later  GET    /_matrix/client/v3/profile/{userId}/{keyName}
		later  PUT    /_matrix/client/v3/profile/{userId}/{keyName}
		later  DELETE /_matrix/client/v3/profile/{userId}/{keyName}
		later  GET    /_matrix/federation/v1/query/profile
	`},
	{"push", `
		later  GET    /_matrix/client/v3/notifications
		later  GET    /_matrix/client/v3/pushers
		later  POST   /_matrix/client/v3/pushers/set
		later  GET    /_matrix/client/v3/pushrules/
		later  GET    /_matrix/client/v3/pushrules/global/
		later  GET    /_matrix/client/v3/pushrules/global/{kind}/{ruleId}
		later  PUT    /_matrix/client/v3/pushrules/global/{kind}/{ruleId}
		later  DELETE /_matrix/client/v3/pushrules/global/{kind}/{ruleId}
		later  GET    /_matrix/client/v3/pushrules/global/{kind}/{ruleId}/actions
		later  PUT    /_matrix/client/v3/pushrules/global/{kind}/{ruleId}/actions
		later  GET    /_matrix/client/v3/pushrules/global/{kind}/{ruleId}/enabled
		later  PUT    /_matrix/client/v3/pushrules/global/{kind}/{ruleId}/enabled
	`},
	{"relations and threads", `
		later  GET    /_matrix/client/v1/rooms/{roomId}/relations/{eventId}
		later  GET    /_matrix/client/v1/rooms/{roomId}/relations/{eventId}/{relType}
		later  GET    /_matrix/client/v1/rooms/{roomId}/relations/{eventId}/{relType}/{eventType}
		later  GET    /_matrix/client/v1/rooms/{roomId}/threads
	`},
	{"reporting content", `
		later  POST   /_matrix/client/v3/rooms/{roomId}/report
		later  POST   /_matrix/client/v3/rooms/{roomId}/report/{eventId}
		later  POST   /_matrix/client/v3/users/{userId}/report
	`},
	{"room directory", `
		later  GET    /_matrix/client/v3/publicRooms
		later  POST   /_matrix/client/v3/publicRooms
		later  GET    /_matrix/federation/v1/publicRooms
		later  POST   /_matrix/federation/v1/publicRooms
	`},
	{"room federation", `
		later  GET    /_matrix/federation/v1/backfill/{roomId}
		later  GET    /_matrix/federation/v1/event/{eventId}
		later  GET    /_matrix/federation/v1/event_auth/{roomId}/{eventId}
		later  POST   /_matrix/federation/v1/get_missing_events/{roomId}
		later  PUT    /_matrix/federation/v1/invite/{roomId}/{eventId}
		later  GET    /_matrix/federation/v1/make_join/{roomId}/{userId}
		later  GET    /_matrix/federation/v1/make_knock/{roomId}/{userId}
		later  GET    /_matrix/federation/v1/make_leave/{roomId}/{userId}
		later  GET    /_matrix/federation/v1/query/directory
		later  GET    /_matrix/federation/v1/query/{queryType}
		later  PUT    /_matrix/federation/v1/send_knock/{roomId}/{eventId}
		later  GET    /_matrix/federation/v1/state/{roomId}
		later  GET    /_matrix/federation/v1/state_ids/{roomId}
		later  GET    /_matrix/federation/v1/timestamp_to_event/{roomId}
		later  PUT    /_matrix/federation/v2/invite/{roomId}/{eventId}
		later  PUT    /_matrix/federation/v2/send_join/{roomId}/{eventId}
		later  PUT    /_matrix/federation/v2/send_leave/{roomId}/{eventId}
	`},
	{"rooms", `
		served GET    /_matrix/client/v1/rooms/{roomId}/timestamp_to_event
		served POST   /_matrix/client/v3/createRoom
		served GET    /_matrix/client/v3/directory/list/room/{roomId}
		served PUT    /_matrix/client/v3/directory/list/room/{roomId}
		served GET    /_matrix/client/v3/directory/room/{roomAlias}
		served PUT    /_matrix/client/v3/directory/room/{roomAlias}
		served DELETE /_matrix/client/v3/directory/room/{roomAlias}
		served POST   /_matrix/client/v3/join/{roomIdOrAlias}
		served GET    /_matrix/client/v3/joined_rooms
		served POST   /_matrix/client/v3/knock/{roomIdOrAlias}
		served GET    /_matrix/client/v3/rooms/{roomId}/aliases
		served POST   /_matrix/client/v3/rooms/{roomId}/ban
		served GET    /_matrix/client/v3/rooms/{roomId}/context/{eventId}
		served GET    /_matrix/client/v3/rooms/{roomId}/event/{eventId}
		served POST   /_matrix/client/v3/rooms/{roomId}/forget
		served GET    /_matrix/client/v3/rooms/{roomId}/initialSync
		served POST   /_matrix/client/v3/rooms/{roomId}/invite
		served POST   /_matrix/client/v3/rooms/{roomId}/join
		served GET    /_matrix/client/v3/rooms/{roomId}/joined_members
		served POST   /_matrix/client/v3/rooms/{roomId}/kick
		served POST   /_matrix/client/v3/rooms/{roomId}/leave
		served GET    /_matrix/client/v3/rooms/{roomId}/members
		served GET    /_matrix/client/v3/rooms/{roomId}/messages
		served PUT    /_matrix/client/v3/rooms/{roomId}/redact/{eventId}/{txnId}
		served PUT    /_matrix/client/v3/rooms/{roomId}/send/{eventType}/{txnId}
		served GET    /_matrix/client/v3/rooms/{roomId}/state
		served GET    /_matrix/client/v3/rooms/{roomId}/state/{eventType}/{stateKey}
		served PUT    /_matrix/client/v3/rooms/{roomId}/state/{eventType}/{stateKey}
		served POST   /_matrix/client/v3/rooms/{roomId}/unban
		served POST   /_matrix/client/v3/rooms/{roomId}/upgrade
	`},
	{"search", `
		later  POST   /_matrix/client/v3/search
	`},
	{"server keys", `
		served POST   /_matrix/key/v2/query
		served GET    /_matrix/key/v2/query/{serverName}
		served GET    /_matrix/key/v2/server
	`},
	{"single sign-on and OAuth 2.0", `
		later  GET    /_matrix/client/v1/auth_metadata
		later  GET    /_matrix/client/v3/login/sso/redirect
		later  GET    /_matrix/client/v3/login/sso/redirect/{idpId}
	`},
	{"spaces", `
		later  GET    /_matrix/client/v1/room_summary/{roomIdOrAlias}
		later  GET    /_matrix/client/v1/rooms/{roomId}/hierarchy
		later  GET    /_matrix/federation/v1/hierarchy/{roomId}
	`},
	{"sync and send-to-device", `
		served PUT    /_matrix/client/v3/sendToDevice/{eventType}/{txnId}
		served GET    /_matrix/client/v3/sync
	`},
	{"tags", `
		later  GET    /_matrix/client/v3/user/{userId}/rooms/{roomId}/tags
		later  PUT    /_matrix/client/v3/user/{userId}/rooms/{roomId}/tags/{tag}
		later  DELETE /_matrix/client/v3/user/{userId}/rooms/{roomId}/tags/{tag}
	`},
	{"third-party identifiers", `
		later  GET    /_matrix/client/v3/account/3pid
		later  POST   /_matrix/client/v3/account/3pid
		later  POST   /_matrix/client/v3/account/3pid/add
		later  POST   /_matrix/client/v3/account/3pid/bind
		later  POST   /_matrix/client/v3/account/3pid/delete
		later  POST   /_matrix/client/v3/account/3pid/email/requestToken
		later  POST   /_matrix/client/v3/account/3pid/msisdn/requestToken
		later  POST   /_matrix/client/v3/account/3pid/unbind
		later  POST   /_matrix/client/v3/account/password/email/requestToken
		later  POST   /_matrix/client/v3/account/password/msisdn/requestToken
		later  POST   /_matrix/client/v3/register/email/requestToken
		later  POST   /_matrix/client/v3/register/msisdn/requestToken
		later  PUT    /_matrix/federation/v1/3pid/onbind
		later  PUT    /_matrix/federation/v1/exchange_third_party_invite/{roomId}
	`},
	{"transactions of other servers", `
		served PUT    /_matrix/federation/v1/send/{txnId}
		served GET    /_matrix/federation/v1/version
	`},
	{"user directory", `
		later  GET    /_matrix/client/v1/mutual_rooms
		later  POST   /_matrix/client/v3/user_directory/search
	`},
}
