package conformance

import (
	"bytes"
	"errors"
	"testing"

	"github.com/errand-dev/errand/shared/platform"
)

// Blobs checks platform.Blobs.
func (s Suite) Blobs(t *testing.T) {
	binary := make([]byte, 2<<20)
	for i := range binary {
		binary[i] = byte(i * i >> 3)
	}
	s.run(t, []sentence{
		{"a blob comes back byte for byte", func(e *env) {
			name := e.partition()
			for suffix, data := range map[string][]byte{"/text": []byte("plain"), "/empty": {}, "/binary": binary, "/umlaut-ü": {0, 255, 254}} {
				e.must(e.Store.PutBlob(e.Context(), name+suffix, data))
				e.wantBlob(name+suffix, data)
			}
		}},
		{"an absent blob is ErrNoBlob", func(e *env) { e.wantNoBlob(e.partition()) }},
		{"putting the same blob again is harmless", func(e *env) {
			name := e.partition()
			e.must(e.Store.PutBlob(e.Context(), name, []byte("same")))
			e.must(e.Store.PutBlob(e.Context(), name, []byte("same")))
			e.wantBlob(name, []byte("same"))
		}},
		{"a deleted blob is gone, and may be deleted again and put again", func(e *env) {
			name := e.partition()
			e.must(e.Store.PutBlob(e.Context(), name, []byte("data")))
			e.must(e.Store.DeleteBlob(e.Context(), name))
			e.wantNoBlob(name)
			e.must(e.Store.DeleteBlob(e.Context(), name))
			e.must(e.Store.PutBlob(e.Context(), name, []byte("data")))
			e.wantBlob(name, []byte("data"))
		}},
	})
}

func (e *env) wantBlob(name string, want []byte) {
	e.Helper()
	got, err := e.Store.GetBlob(e.Context(), name)
	e.must(err)
	if !bytes.Equal(got, want) {
		e.Fatalf("blob has %d bytes, want the %d that were put", len(got), len(want))
	}
}

func (e *env) wantNoBlob(name string) {
	e.Helper()
	if _, err := e.Store.GetBlob(e.Context(), name); !errors.Is(err, platform.ErrNoBlob) {
		e.Fatalf("got error %v, want %v", err, platform.ErrNoBlob)
	}
}
