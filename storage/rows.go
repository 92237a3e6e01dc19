package storage

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
)

// rows iterates over a result: for rows.Next() { rows.Scan(…) }, then
// rows.Err(). Close may be called more than once.
type rows struct {
	c      *conn
	p      *prepared
	spare  bool // p is ours alone
	rows   driver.Rows
	vals   []driver.Value
	err    error
	closed bool
}

// Next steps to the next row and tells whether there is one.
func (r *rows) Next() bool {
	if r.closed || r.err != nil {
		return false
	}
	switch err := r.rows.Next(r.vals); {
	case err == nil:
		return true
	case !errors.Is(err, io.EOF):
		r.err = r.c.note(err)
	}
	return false
}

// Err is the error that ended the iteration, if any.
func (r *rows) Err() error { return r.err }

// Close frees the statement for its next use.
func (r *rows) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	delete(r.c.open, r)
	r.p.busy = false
	err := r.rows.Close()
	if r.err != nil {
		err = nil // the same error a second time
	}
	if r.spare {
		err = errors.Join(err, r.p.stmt.Close())
	}
	return r.c.note(err)
}

// Scan copies the row into dest: pointers to integers, floats, booleans,
// strings, byte slices and types derived from these; a pointer to such a
// pointer takes NULL as nil; a sql.Scanner does as it likes.
func (r *rows) Scan(dest ...any) error {
	if len(dest) != len(r.vals) {
		return fmt.Errorf("scan: %d columns into %d destinations", len(r.vals), len(dest))
	}
	for i, d := range dest {
		if err := assign(d, r.vals[i]); err != nil {
			return fmt.Errorf("scan column %s: %w", r.rows.Columns()[i], err)
		}
	}
	return nil
}

func assign(dest any, v driver.Value) error {
	switch d := dest.(type) {
	case *int64:
		if n, ok := v.(int64); ok {
			*d = n
			return nil
		}
	case *string:
		if s, ok := v.(string); ok {
			*d = s
			return nil
		}
	case *[]byte:
		if b, ok := v.([]byte); ok {
			*d = b
			return nil
		}
	case *any:
		*d = v
		return nil
	case sql.Scanner:
		return d.Scan(v)
	}
	p := reflect.ValueOf(dest)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("destination %T is not a pointer", dest)
	}
	return assignTo(p.Elem(), v)
}

func assignTo(d reflect.Value, v driver.Value) error {
	if d.Kind() == reflect.Pointer {
		if v == nil {
			d.SetZero()
			return nil
		}
		d.Set(reflect.New(d.Type().Elem()))
		return assign(d.Interface(), v)
	}
	switch x := v.(type) {
	case int64:
		return assignInt(d, x)
	case float64:
		if d.CanFloat() {
			d.SetFloat(x)
			return nil
		}
	case string:
		if d.Kind() == reflect.String {
			d.SetString(x)
			return nil
		}
		if isBytes(d) {
			d.SetBytes([]byte(x))
			return nil
		}
	case []byte:
		if isBytes(d) {
			d.SetBytes(x)
			return nil
		}
		if d.Kind() == reflect.String {
			d.SetString(string(x))
			return nil
		}
	case nil:
		if isBytes(d) {
			d.SetBytes(nil) // SQLite's driver gives an empty blob as nil, too
			return nil
		}
		return fmt.Errorf("NULL into %s", d.Type())
	}
	return fmt.Errorf("%T into %s", v, d.Type())
}

func assignInt(d reflect.Value, n int64) error {
	switch {
	case d.CanInt() && !d.OverflowInt(n):
		d.SetInt(n)
	case d.CanUint() && n >= 0 && !d.OverflowUint(uint64(n)):
		d.SetUint(uint64(n))
	case d.Kind() == reflect.Bool && (n == 0 || n == 1):
		d.SetBool(n == 1)
	case d.CanFloat():
		d.SetFloat(float64(n))
	default:
		return fmt.Errorf("%d into %s", n, d.Type())
	}
	return nil
}

func isBytes(d reflect.Value) bool {
	return d.Kind() == reflect.Slice && d.Type().Elem().Kind() == reflect.Uint8
}

// bind fills c.args for one execution.
func (c *conn) bind(args []any) error {
	c.args = c.args[:0]
	for i, a := range args {
		v, err := bindable(a)
		if err != nil {
			return fmt.Errorf("argument %d: %w", i+1, err)
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return nil
}

// bindable is a as one of the kinds the driver binds. Times are refused: what
// a column holds is integer milliseconds, and the caller says of which clock.
func bindable(a any) (driver.Value, error) {
	switch x := a.(type) {
	case nil, int64, string, float64, bool, []byte:
		return x, nil
	case int:
		return int64(x), nil
	case driver.Valuer:
		return x.Value()
	}
	v := reflect.ValueOf(a)
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return bindable(v.Elem().Interface())
	case v.Kind() == reflect.String:
		return v.String(), nil
	case v.CanInt():
		return v.Int(), nil
	case v.CanUint() && v.Uint() <= math.MaxInt64:
		return int64(v.Uint()), nil
	case v.Kind() == reflect.Bool:
		return v.Bool(), nil
	case v.CanFloat():
		return v.Float(), nil
	case isBytes(v):
		return v.Bytes(), nil
	}
	return nil, fmt.Errorf("%T cannot be stored", a)
}
