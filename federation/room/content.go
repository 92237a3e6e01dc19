package room

import (
	"fmt"
	"maps"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// Types of events that are only made here, and that no rule names.
const (
	typeAvatar         = "m.room.avatar"
	typeCanonicalAlias = "m.room.canonical_alias"
	typeEncryption     = "m.room.encryption"
	typeGuestAccess    = "m.room.guest_access"
	typeName           = "m.room.name"
	typeSpaceChild     = "m.space.child"
	typeTombstone      = "m.room.tombstone"
	typeTopic          = "m.room.topic"
)

// object is a JSON object whose members are kept as they are.
type object map[string]jsontext.Value

// parseObject reads an object; nil is an empty one. Its error is M_BAD_JSON.
func parseObject(what string, v jsontext.Value) (object, error) {
	o := object{}
	if len(v) == 0 {
		return o, nil
	}
	if v.Kind() != '{' {
		return nil, matrix.Errorf(matrix.BadJSON, "%s is not an object", what)
	}
	return o, decode(what, v, &o)
}

// decode reads JSON that a client sent; its error is M_BAD_JSON.
func decode(what string, v jsontext.Value, to any) error {
	if err := json.Unmarshal(v, to); err != nil {
		return matrix.Errorf(matrix.BadJSON, "%s: %v", what, err)
	}
	return nil
}

// set puts a value that can always be encoded.
func (o object) set(key string, value any) {
	b, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("room: encode %s: %v", key, err))
	}
	o[key] = b
}

// text is a member that is a string, empty for anything else.
func (o object) text(key string) string {
	var s string
	if v := o[key]; v.Kind() == '"' && json.Unmarshal(v, &s) == nil {
		return s
	}
	return ""
}

// over is o with the members of top in place of its own.
func (o object) over(top object) object {
	all := maps.Clone(o)
	maps.Copy(all, top)
	return all
}

// json encodes the object. Events are made canonical when they are built.
func (o object) json() jsontext.Value {
	b, err := json.Marshal(o, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("room: encode an object: %v", err))
	}
	return b
}

// content is an object of the given keys and values, in pairs.
func content(pairs ...any) jsontext.Value {
	o := object{}
	for i := 0; i < len(pairs); i += 2 {
		o.set(pairs[i].(string), pairs[i+1])
	}
	return o.json()
}

// topicContent is the content of m.room.topic, with the text in the content
// block of recent clients too.
func topicContent(topic string) jsontext.Value {
	type text struct {
		Body string `json:"body"`
	}
	type block struct {
		Text []text `json:"m.text"`
	}
	return content("topic", topic, "m.topic", block{Text: []text{{Body: topic}}})
}
