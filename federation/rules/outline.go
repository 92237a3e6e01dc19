package rules

import "hearth/storage/matrix"

// Rule is one authorization rule that can refuse an event. The same rule has
// different numbers in different room versions: see [Rule.Section].
type Rule uint8

// The rules that refuse, in the order of the specification's pages.
const (
	_                   Rule = iota
	CreateHasPrev            // a create event with prev_events
	CreateDomain             // a create event whose room ID is another server's
	CreateHasRoomID          // a create event with a room_id, from room version 12 on
	CreateVersion            // a create event of an unknown room version
	CreateNoCreator          // a create event without creator, up to room version 10
	CreateAdditional         // additional_creators that are not user IDs
	NoRoom                   // room_id is not the ID of an accepted create event
	AuthDuplicate            // two auth events at one type and state key
	AuthUnexpected           // an auth event that the selection would not choose
	AuthRejected             // an auth event that was rejected itself
	AuthNoCreate             // no create event among the auth events, or in the state
	AuthOtherRoom            // an auth event of another room
	NotFederated             // a foreign sender in a room that does not federate
	AliasesNoStateKey        // m.room.aliases without a state key
	AliasesDomain            // m.room.aliases of another server
	MemberShape              // a member event without state key or membership
	MemberNotCosigned        // the authorizing server's signature is not there
	JoinNotSelf              // a join for somebody else
	JoinBanned               // a join of a banned user
	JoinNotAuthorised        // a restricted join nobody able to invite vouches for
	JoinRule                 // a join that the join rule does not allow
	ThirdPartyBanned         // a third-party invite of a banned user
	ThirdPartyUnsigned       // a third-party invite without "signed"
	ThirdPartyShape          // "signed" without mxid or token
	ThirdPartyTarget         // "signed" is about another user
	ThirdPartyUnknown        // no m.room.third_party_invite with that token
	ThirdPartySender         // the inviter did not send the m.room.third_party_invite
	ThirdPartySignature      // no signature by a key of the m.room.third_party_invite
	InviteNotJoined          // the inviter is not in the room
	InviteTarget             // the invited user is joined or banned
	InviteLevel              // the inviter's power level is too low
	LeaveNotIn               // leaving without having been in, invited or knocking
	KickNotJoined            // the kicker is not in the room
	UnbanLevel               // the power level is too low to unban
	KickLevel                // the power level is too low to kick
	BanNotJoined             // the banning user is not in the room
	BanLevel                 // the power level is too low to ban
	KnockRule                // a knock that the join rule does not allow
	KnockNotSelf             // a knock for somebody else
	KnockMembership          // a knock of somebody banned, invited or joined
	MembershipUnknown        // a membership this room version does not know
	SenderNotJoined          // the sender is not in the room
	ThirdPartyLevel          // the power level is too low for a third-party invite
	EventLevel               // the power level is too low for the event's type
	StateKeyOther            // a state key that is another user's ID
	PowerNotInteger          // a level that is not an integer
	PowerMapNotInteger       // a level in events or notifications that is not an integer
	PowerUsers               // users is not a map from user IDs to integers
	PowerCreator             // users names a creator
	PowerPropCurrent         // changes a level above the sender's
	PowerPropNew             // sets a level above the sender's
	PowerMapCurrent          // changes an event or notification level above the sender's
	PowerMapNew              // sets an event or notification level above the sender's
	PowerUserCurrent         // changes a user who is not below the sender
	PowerUserNew             // raises a user above the sender
	RedactionLevel           // the power level is too low to redact another server's event
)

// outlineLine is one numbered item of the rules. Lines without a rule allow, or
// only head what is below them; they count for the numbering.
type outlineLine struct {
	depth int
	when  func(*matrix.Version) bool // nil: in every room version
	rule  Rule
	name  string
	text  string
}

// outline is the rules of all room versions in one, as the room version pages
// number them.
var outline = []outlineLine{
	{0, nil, 0, "", "type is m.room.create"},
	{1, nil, CreateHasPrev, "create.prev_events", "a create event has no prev_events"},
	{1, hasRoomID, CreateDomain, "create.domain", "the room ID is not of the sender's server"},
	{1, hashRoomID, CreateHasRoomID, "create.room_id", "a create event has no room_id"},
	{1, nil, CreateVersion, "create.version", "content.room_version is not a known version"},
	{1, contentCreator, CreateNoCreator, "create.creator", "content has no creator"},
	{1, privilegedCreators, CreateAdditional, "create.additional_creators", "additional_creators is not a list of user IDs"},
	{1, nil, 0, "", "allow"},
	{0, hashRoomID, NoRoom, "room.create", "the room ID is not the ID of an accepted create event"},
	{0, nil, 0, "", "the event's auth_events"},
	{1, nil, AuthDuplicate, "auth_events.duplicate", "two auth events have the same type and state key"},
	{1, nil, AuthUnexpected, "auth_events.unexpected", "an auth event does not authorize this event"},
	{1, nil, AuthRejected, "auth_events.rejected", "an auth event was rejected or is not known"},
	{1, hasRoomID, AuthNoCreate, "auth_events.create", "there is no create event"},
	{1, nil, AuthOtherRoom, "auth_events.room", "an auth event is of another room"},
	{0, nil, NotFederated, "federate", "the room does not federate and the sender is of another server"},
	{0, aliases, 0, "", "type is m.room.aliases"},
	{1, aliases, AliasesNoStateKey, "aliases.state_key", "m.room.aliases has no state key"},
	{1, aliases, AliasesDomain, "aliases.domain", "the state key is not the sender's server"},
	{1, aliases, 0, "", "allow"},
	{0, nil, 0, "", "type is m.room.member"},
	{1, nil, MemberShape, "member.shape", "a member event needs a state key and a membership"},
	{1, restricted, 0, "", "content has join_authorised_via_users_server"},
	{2, restricted, MemberNotCosigned, "member.cosigned", "the authorizing user's server has not signed"},
	{1, nil, 0, "", "membership is join"},
	{2, nil, 0, "", "allow the creator right after the create event"},
	{2, nil, JoinNotSelf, "join.not_self", "the sender is not the state key"},
	{2, nil, JoinBanned, "join.banned", "the sender is banned"},
	{2, nil, 0, "", "join_rule is invite or knock"},
	{2, restricted, 0, "", "join_rule is restricted or knock_restricted"},
	{3, restricted, 0, "", "allow the invited and the joined"},
	{3, restricted, JoinNotAuthorised, "join.authorised", "no joined user who may invite vouches for the join"},
	{3, restricted, 0, "", "allow"},
	{2, nil, 0, "", "join_rule is public"},
	{2, nil, JoinRule, "join.rule", "the join rule does not allow it"},
	{1, nil, 0, "", "membership is invite"},
	{2, nil, 0, "", "content has third_party_invite"},
	{3, nil, ThirdPartyBanned, "third_party.banned", "the invited user is banned"},
	{3, nil, ThirdPartyUnsigned, "third_party.unsigned", "third_party_invite has no signed"},
	{3, nil, ThirdPartyShape, "third_party.shape", "signed has no mxid or no token"},
	{3, nil, ThirdPartyTarget, "third_party.target", "signed.mxid is not the state key"},
	{3, nil, ThirdPartyUnknown, "third_party.unknown", "no m.room.third_party_invite has that token"},
	{3, nil, ThirdPartySender, "third_party.sender", "another user sent the m.room.third_party_invite"},
	{3, nil, 0, "", "allow if a signature matches a key"},
	{3, nil, ThirdPartySignature, "third_party.signature", "no signature matches a key of the m.room.third_party_invite"},
	{2, nil, InviteNotJoined, "invite.not_joined", "the sender is not in the room"},
	{2, nil, InviteTarget, "invite.target", "the invited user is joined or banned"},
	{2, nil, 0, "", "allow at the invite level"},
	{2, nil, InviteLevel, "invite.level", "the sender's power level is below the invite level"},
	{1, nil, 0, "", "membership is leave"},
	{2, nil, LeaveNotIn, "leave.not_in", "the user is not joined, invited or knocking"},
	{2, nil, KickNotJoined, "kick.not_joined", "the sender is not in the room"},
	{2, nil, UnbanLevel, "kick.unban", "the target is banned and the sender's power level is below the ban level"},
	{2, nil, 0, "", "allow at the kick level, above the target"},
	{2, nil, KickLevel, "kick.level", "the sender's power level is below the kick level or not above the target's"},
	{1, nil, 0, "", "membership is ban"},
	{2, nil, BanNotJoined, "ban.not_joined", "the sender is not in the room"},
	{2, nil, 0, "", "allow at the ban level, above the target"},
	{2, nil, BanLevel, "ban.level", "the sender's power level is below the ban level or not above the target's"},
	{1, knock, 0, "", "membership is knock"},
	{2, knock, KnockRule, "knock.rule", "the join rule does not allow knocking"},
	{2, knock, KnockNotSelf, "knock.not_self", "the sender is not the state key"},
	{2, knock, 0, "", "allow"},
	{2, knock, KnockMembership, "knock.membership", "the sender is banned, invited or joined"},
	{1, nil, MembershipUnknown, "member.unknown", "the membership is unknown"},
	{0, nil, SenderNotJoined, "sender.not_joined", "the sender is not in the room"},
	{0, nil, 0, "", "type is m.room.third_party_invite"},
	{1, nil, ThirdPartyLevel, "third_party.level", "the sender's power level is below the invite level"},
	{0, nil, EventLevel, "event.level", "the sender's power level is below what the event's type requires"},
	{0, nil, StateKeyOther, "event.state_key", "the state key is the ID of another user"},
	{0, nil, 0, "", "type is m.room.power_levels"},
	{1, integerLevels, PowerNotInteger, "power.integer", "a level is not an integer"},
	{1, integerLevels, PowerMapNotInteger, "power.map_integer", "events or notifications is not a map to integers"},
	{1, nil, PowerUsers, "power.users", "users is not a map from user IDs to integers"},
	{1, privilegedCreators, PowerCreator, "power.creator", "users names a creator of the room"},
	{1, nil, 0, "", "allow the first m.room.power_levels"},
	{1, nil, 0, "", "a level was added, changed or removed"},
	{2, nil, PowerPropCurrent, "power.level_current", "the current level is above the sender's"},
	{2, nil, PowerPropNew, "power.level_new", "the new level is above the sender's"},
	{1, nil, 0, "", "an entry of events or notifications was changed or removed"},
	{2, nil, PowerMapCurrent, "power.map_current", "the current level is above the sender's"},
	{1, nil, 0, "", "an entry of events or notifications was added or changed"},
	{2, nil, PowerMapNew, "power.map_new", "the new level is above the sender's"},
	{1, nil, 0, "", "another user's entry was changed or removed"},
	{2, nil, PowerUserCurrent, "power.user_current", "the user's current level is not below the sender's"},
	{1, nil, 0, "", "a user's entry was added or changed"},
	{2, nil, PowerUserNew, "power.user_new", "the user's new level is above the sender's"},
	{1, nil, 0, "", "allow"},
	{0, redaction, 0, "", "type is m.room.redaction"},
	{1, redaction, 0, "", "allow at the redact level"},
	{1, redaction, 0, "", "allow within one server"},
	{1, redaction, RedactionLevel, "redaction.level", "the event is of another server and the sender's power level is below the redact level"},
	{0, nil, 0, "", "allow"},
}

func hasRoomID(v *matrix.Version) bool          { return !v.RoomIDFromCreate }
func hashRoomID(v *matrix.Version) bool         { return v.RoomIDFromCreate }
func contentCreator(v *matrix.Version) bool     { return !v.CreatorIsSender }
func privilegedCreators(v *matrix.Version) bool { return v.PrivilegedCreators }
func aliases(v *matrix.Version) bool            { return v.AliasesRule }
func restricted(v *matrix.Version) bool         { return v.Restricted }
func knock(v *matrix.Version) bool              { return v.Knock }
func integerLevels(v *matrix.Version) bool      { return v.IntegerLevels }
func redaction(v *matrix.Version) bool          { return v.RedactionRule }
