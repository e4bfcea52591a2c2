package dynamostore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/errand-dev/errand/shared/awsclient"
)

// What DynamoDB's attributes hold (developer guide, "Constraints"). maxAttributes
// leaves room under the item's 400 KB for keys and names: small values in lists
// take more room as attributes than as text.
const (
	maxDepth      = 30
	maxDigits     = 38
	maxExponent   = 120
	maxAttributes = 380 << 10
)

// errNoAttributes means that a body is good JSON which attributes cannot hold exactly.
var errNoAttributes = errors.New("body does not fit DynamoDB's attribute types")

// encodeBody turns one JSON object into a map attribute. Numbers keep every digit.
func encodeBody(data []byte) (types.AttributeValue, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		return nil, fmt.Errorf("decoding the body: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decoding the body: more than one JSON value")
	}
	if object == nil {
		return nil, errors.New("decoding the body: not a JSON object but null")
	}
	attributes, err := encodeValue(object, 1)
	if err != nil {
		return nil, err
	}
	if awsclient.ItemSize(row{body: attributes}) > maxAttributes {
		return nil, errNoAttributes
	}
	return attributes, nil
}

func encodeValue(value any, depth int) (types.AttributeValue, error) {
	if depth > maxDepth {
		return nil, errNoAttributes
	}
	switch v := value.(type) {
	case string:
		return &types.AttributeValueMemberS{Value: v}, nil
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}, nil
	case json.Number:
		if !fitsNumber(v.String()) {
			return nil, errNoAttributes
		}
		return &types.AttributeValueMemberN{Value: v.String()}, nil
	case map[string]any:
		return encodeMap(v, depth)
	case []any:
		return encodeList(v, depth)
	}
	return &types.AttributeValueMemberNULL{Value: true}, nil
}

func encodeMap(object map[string]any, depth int) (types.AttributeValue, error) {
	attributes := make(map[string]types.AttributeValue, len(object))
	for name, v := range object {
		// An attribute's name has at least one byte.
		if name == "" {
			return nil, errNoAttributes
		}
		attribute, err := encodeValue(v, depth+1)
		if err != nil {
			return nil, err
		}
		attributes[name] = attribute
	}
	return &types.AttributeValueMemberM{Value: attributes}, nil
}

func encodeList(list []any, depth int) (types.AttributeValue, error) {
	attributes := make([]types.AttributeValue, len(list))
	for i, v := range list {
		attribute, err := encodeValue(v, depth+1)
		if err != nil {
			return nil, err
		}
		attributes[i] = attribute
	}
	return &types.AttributeValueMemberL{Value: attributes}, nil
}

// fitsNumber reports whether DynamoDB keeps the JSON number exactly: at most 38
// digits, and a magnitude well inside 1E-130 to 9.9E+125.
func fitsNumber(n string) bool {
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(n), "e")
	digits := strings.Trim(strings.Replace(strings.TrimPrefix(mantissa, "-"), ".", "", 1), "0")
	if len(digits) > maxDigits || len(mantissa) > maxExponent {
		return false
	}
	if !hasExponent {
		return true
	}
	e, ok := new(big.Int).SetString(exponent, 10)
	return ok && e.IsInt64() && e.Int64() < maxExponent-int64(len(mantissa)) && e.Int64() > int64(len(mantissa))-maxExponent
}

// decodeBody is the reverse of encodeBody.
func decodeBody(attribute types.AttributeValue) ([]byte, error) {
	value, err := decodeValue(attribute)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func decodeValue(attribute types.AttributeValue) (any, error) {
	switch a := attribute.(type) {
	case *types.AttributeValueMemberS:
		return a.Value, nil
	case *types.AttributeValueMemberN:
		return json.Number(a.Value), nil
	case *types.AttributeValueMemberBOOL:
		return a.Value, nil
	case *types.AttributeValueMemberNULL:
		return nil, nil
	case *types.AttributeValueMemberM:
		object := make(map[string]any, len(a.Value))
		for name, v := range a.Value {
			value, err := decodeValue(v)
			if err != nil {
				return nil, err
			}
			object[name] = value
		}
		return object, nil
	case *types.AttributeValueMemberL:
		list := make([]any, len(a.Value))
		for i, v := range a.Value {
			value, err := decodeValue(v)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return list, nil
	}
	return nil, fmt.Errorf("an attribute of type %T is not JSON", attribute)
}
