package rules

import "hearth/storage/matrix"

// member is the rule of m.room.member.
func (c *check) member(create *matrix.Event) error {
	target, ok := c.ev.StateKey()
	content := c.ev.Member()
	if !ok || !content.HasMembership {
		return c.refuse(MemberShape)
	}
	if c.version.Restricted && content.HasAuthorisedVia {
		// That what is there verifies was made sure of before: see Authorize.
		via := content.AuthorisedVia
		if via == "" || len(c.ev.SignatureKeys(via.Server())) == 0 {
			return c.refuse(MemberNotCosigned)
		}
	}
	c.levels = levelsIn(c.state)
	switch content.Membership {
	case matrix.MembershipJoin:
		return c.join(create, target, content)
	case matrix.MembershipInvite:
		return c.invite(target, content)
	case matrix.MembershipLeave:
		return c.leave(target)
	case matrix.MembershipBan:
		return c.ban(target)
	case matrix.MembershipKnock:
		if c.version.Knock {
			return c.knock(target)
		}
	}
	return c.refuse(MembershipUnknown)
}

func (c *check) join(create *matrix.Event, target string, content *matrix.MemberContent) error {
	if prev := c.ev.PrevEvents(); len(prev) == 1 && prev[0] == create.ID() && c.isFirst(create, target) {
		return nil
	}
	if target != string(c.sender) {
		return c.refuse(JoinNotSelf)
	}
	membership := c.membership(c.sender)
	if membership == matrix.MembershipBan {
		return c.refuse(JoinBanned)
	}
	in := membership == matrix.MembershipInvite || membership == matrix.MembershipJoin
	rule := c.joinRule()
	switch {
	case rule == matrix.JoinRulePublic:
		return nil
	case rule == matrix.JoinRuleInvite, rule == matrix.JoinRuleKnock && c.version.Knock:
		if in {
			return nil
		}
	case rule == matrix.JoinRuleRestricted && c.version.Restricted,
		rule == matrix.JoinRuleKnockRestricted && c.version.KnockRestricted:
		if in {
			return nil
		}
		return c.restrictedJoin(content.AuthorisedVia)
	}
	return c.refuse(JoinRule)
}

// isFirst tells whether target is who may join right after the create event:
// content.creator, or the create event's sender. (Additional creators may not.)
func (c *check) isFirst(create *matrix.Event, target string) bool {
	if c.version.CreatorIsSender {
		return target == string(create.Sender())
	}
	return target == string(c.create.Creator)
}

// restrictedJoin wants a joined user who may invite to have let the sender in.
func (c *check) restrictedJoin(via matrix.UserID) error {
	if via == "" || c.membership(via) != matrix.MembershipJoin || c.power(via) < c.inviteLevel() {
		return c.refuse(JoinNotAuthorised)
	}
	return nil
}

func (c *check) invite(target string, content *matrix.MemberContent) error {
	membership := c.membership(matrix.UserID(target))
	if content.ThirdPartyInvite != nil {
		return c.thirdPartyInvite(target, membership, content.ThirdPartyInvite)
	}
	switch {
	case c.membership(c.sender) != matrix.MembershipJoin:
		return c.refuse(InviteNotJoined)
	case membership == matrix.MembershipJoin, membership == matrix.MembershipBan:
		return c.refuse(InviteTarget)
	case c.power(c.sender) < c.inviteLevel():
		return c.refuse(InviteLevel)
	}
	return nil
}

func (c *check) thirdPartyInvite(target, membership string, invite *matrix.InviteContent) error {
	switch {
	case membership == matrix.MembershipBan:
		return c.refuse(ThirdPartyBanned)
	case invite.Signed == nil:
		return c.refuse(ThirdPartyUnsigned)
	case !invite.HasMXID || !invite.HasToken:
		return c.refuse(ThirdPartyShape)
	}
	// A value that is no string matches no state key, not even an empty one.
	if mxid, ok := signedText(invite, "mxid", string(invite.MXID)); !ok || mxid != target {
		return c.refuse(ThirdPartyTarget)
	}
	var origin *matrix.Event
	if token, ok := signedText(invite, "token", invite.Token); ok {
		origin = c.state.Event(matrix.TypeThirdPartyInvite, token)
	}
	switch {
	case origin == nil:
		return c.refuse(ThirdPartyUnknown)
	case origin.Sender() != c.sender:
		return c.refuse(ThirdPartySender)
	case !matrix.VerifyThirdPartyInvite(c.ev, origin):
		return c.refuse(ThirdPartySignature)
	}
	return nil
}

func (c *check) leave(target string) error {
	membership := c.membership(matrix.UserID(target))
	if target == string(c.sender) {
		switch membership {
		case matrix.MembershipInvite, matrix.MembershipJoin:
			return nil
		case matrix.MembershipKnock:
			if c.version.Knock {
				return nil
			}
		}
		return c.refuse(LeaveNotIn)
	}
	if c.membership(c.sender) != matrix.MembershipJoin {
		return c.refuse(KickNotJoined)
	}
	power := c.power(c.sender)
	if membership == matrix.MembershipBan && power < c.levels.BanLevel() {
		return c.refuse(UnbanLevel)
	}
	if power < c.levels.KickLevel() || c.power(matrix.UserID(target)) >= power {
		return c.refuse(KickLevel)
	}
	return nil
}

func (c *check) ban(target string) error {
	if c.membership(c.sender) != matrix.MembershipJoin {
		return c.refuse(BanNotJoined)
	}
	power := c.power(c.sender)
	if power < c.levels.BanLevel() || c.power(matrix.UserID(target)) >= power {
		return c.refuse(BanLevel)
	}
	return nil
}

func (c *check) knock(target string) error {
	switch rule := c.joinRule(); {
	case rule == matrix.JoinRuleKnock:
	case rule == matrix.JoinRuleKnockRestricted && c.version.KnockRestricted:
	default:
		return c.refuse(KnockRule)
	}
	if target != string(c.sender) {
		return c.refuse(KnockNotSelf)
	}
	switch c.membership(c.sender) {
	case matrix.MembershipBan, matrix.MembershipInvite, matrix.MembershipJoin:
		return c.refuse(KnockMembership)
	}
	return nil
}

// joinRule is the room's join rule, invite if it has none.
func (c *check) joinRule() string {
	if ev := c.state.Event(matrix.TypeJoinRules, ""); ev != nil {
		return ev.JoinRules().JoinRule
	}
	return matrix.JoinRuleInvite
}
