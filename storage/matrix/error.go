package matrix

import (
	"fmt"
	"net/http"
	"time"
)

// Code is an error code of the specification ("M_FORBIDDEN").
// Client-Server API, "Standard error response".
type Code string

// The error codes Hearth answers with. Each has a usual HTTP status, see [Code.Status].
const (
	BadAlias               Code = "M_BAD_ALIAS"
	BadJSON                Code = "M_BAD_JSON"
	BadState               Code = "M_BAD_STATE"
	DuplicateAnnotation    Code = "M_DUPLICATE_ANNOTATION"
	Exclusive              Code = "M_EXCLUSIVE"
	Forbidden              Code = "M_FORBIDDEN"
	GuestAccessForbidden   Code = "M_GUEST_ACCESS_FORBIDDEN"
	InvalidParam           Code = "M_INVALID_PARAM"
	InvalidRoomState       Code = "M_INVALID_ROOM_STATE"
	InvalidUsername        Code = "M_INVALID_USERNAME"
	InviteBlocked          Code = "M_INVITE_BLOCKED"
	LimitExceeded          Code = "M_LIMIT_EXCEEDED"
	MissingParam           Code = "M_MISSING_PARAM"
	MissingToken           Code = "M_MISSING_TOKEN"
	NotFound               Code = "M_NOT_FOUND"
	NotJSON                Code = "M_NOT_JSON"
	RoomInUse              Code = "M_ROOM_IN_USE"
	TooLarge               Code = "M_TOO_LARGE"
	Unauthorized           Code = "M_UNAUTHORIZED"
	Unknown                Code = "M_UNKNOWN"
	UnknownToken           Code = "M_UNKNOWN_TOKEN"
	Unrecognized           Code = "M_UNRECOGNIZED"
	UnsupportedRoomVersion Code = "M_UNSUPPORTED_ROOM_VERSION"
	UserDeactivated        Code = "M_USER_DEACTIVATED"
	UserInUse              Code = "M_USER_IN_USE"
	UserLocked             Code = "M_USER_LOCKED"
	UserSuspended          Code = "M_USER_SUSPENDED"
	WeakPassword           Code = "M_WEAK_PASSWORD"
)

// Status is the HTTP status the specification gives the code where the
// endpoint names no other: 400 for most, 500 for M_UNKNOWN.
func (c Code) Status() int {
	switch c {
	case Forbidden, GuestAccessForbidden, InviteBlocked, UserDeactivated, UserSuspended:
		return http.StatusForbidden
	case MissingToken, UnknownToken, UserLocked, Unauthorized:
		return http.StatusUnauthorized
	case NotFound, Unrecognized:
		return http.StatusNotFound
	case TooLarge:
		return http.StatusRequestEntityTooLarge
	case LimitExceeded:
		return http.StatusTooManyRequests
	case Unknown:
		return http.StatusInternalServerError
	default:
		return http.StatusBadRequest
	}
}

// Error is a failure that is told to the caller of an endpoint. Its message is
// public. Every other error leaves the server as 500 M_UNKNOWN.
type Error struct {
	Status     int            // HTTP status
	Code       Code           // M_…
	Message    string         // for people; never a secret
	RetryAfter time.Duration  // with M_LIMIT_EXCEEDED: when to try again
	Extra      map[string]any // further top-level fields, such as soft_logout
}

// Error implements error.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Errorf makes an [*Error] with the code's usual status.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Status: code.Status(), Code: code, Message: fmt.Sprintf(format, args...)}
}
