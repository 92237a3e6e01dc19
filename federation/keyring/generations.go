package keyring

// generations is a map that forgets what was not used for a while: when the
// young generation is full it becomes the old one, and the old one goes.
type generations[K comparable, V any] struct {
	young, old map[K]weighed[V]
	weight     int // of young
	most       int // weight of a generation
}

type weighed[V any] struct {
	v      V
	weight int
}

func newGenerations[K comparable, V any](most int) *generations[K, V] {
	return &generations[K, V]{young: map[K]weighed[V]{}, most: most}
}

// get finds a value and so keeps it for longer.
func (g *generations[K, V]) get(k K) (V, bool) {
	w, ok := g.young[k]
	if !ok {
		if w, ok = g.old[k]; ok {
			g.put(k, w.v, w.weight)
		}
	}
	return w.v, ok
}

// put stores a value that counts as so much.
func (g *generations[K, V]) put(k K, v V, weight int) {
	g.weight += weight - g.young[k].weight
	if g.weight > g.most {
		g.old, g.young, g.weight = g.young, map[K]weighed[V]{}, weight
	}
	g.young[k] = weighed[V]{v, weight}
	delete(g.old, k)
}
