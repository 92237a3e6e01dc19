package web

// List names every endpoint as "METHOD /path/{variable}", in order of addition.
// It is for tests that must not miss one.
func (k *Kernel) List() []string {
	list := make([]string, len(k.routes))
	for i, r := range k.routes {
		list[i] = r.Method + " " + r.Path
	}
	return list
}
