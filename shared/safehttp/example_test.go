package safehttp_test

import (
	"errors"
	"fmt"

	"github.com/errand-dev/errand/shared/safehttp"
)

// A tool fetches addresses that a model has chosen.
func ExampleNew() {
	client, err := safehttp.New(safehttp.Options{AnyPublicHost: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Get("https://169.254.169.254/latest/meta-data/iam/")
	if refused, ok := errors.AsType[*safehttp.RefusedError](err); ok {
		fmt.Println(refused)
	}
	_, err = client.Get("http://example.com/")
	if refused, ok := errors.AsType[*safehttp.RefusedError](err); ok {
		fmt.Println(refused)
	}
	// Output:
	// safehttp: address "169.254.169.254:443" refused: it is not public; if it is meant, add its network to Options.AllowNets
	// safehttp: scheme "http" refused: use https, or set Options.AllowHTTP
}
