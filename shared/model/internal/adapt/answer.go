package adapt

import (
	"encoding/json"

	"github.com/errand-dev/errand/shared/model"
)

// Answer is put together piece by piece, in the vendor's order. Pieces that mean nothing
// to us, like signed reasoning, are kept with their place in Response.Opaque.
type Answer struct {
	res    model.Response
	opaque opaque
	own    bool
}

// opaque is the order of an answer's pieces. Texts and calls are in the message, only
// the vendor's own pieces are here.
type opaque struct {
	Vendor string `json:"vendor"`
	// Model is the one that was asked: reasoning is of no use to another.
	Model string `json:"model"`
	Parts []part `json:"parts"`
}

// part is the next so many bytes of the text, the next call, or a piece of the vendor's own.
type part struct {
	Text int             `json:"text,omitempty"`
	Mark string          `json:"mark,omitempty"`
	Call bool            `json:"call,omitempty"`
	Own  json.RawMessage `json:"own,omitempty"`
}

// NewAnswer begins the answer of a vendor's model, by the name that it was asked by.
func NewAnswer(vendor, name string) *Answer {
	return &Answer{opaque: opaque{Vendor: vendor, Model: name}, res: model.Response{Model: name}}
}

// AddText adds words.
func (a *Answer) AddText(text string) { a.AddMarked(text, "") }

// AddMarked adds words with a mark that the vendor wants back with them.
func (a *Answer) AddMarked(text, mark string) {
	if text == "" {
		return
	}
	a.own = a.own || mark != ""
	a.res.Text += text
	a.opaque.Parts = append(a.opaque.Parts, part{Text: len(text), Mark: mark})
}

// AddCall adds a call.
func (a *Answer) AddCall(c model.Call) {
	a.res.Calls = append(a.res.Calls, c)
	a.opaque.Parts = append(a.opaque.Parts, part{Call: true})
}

// AddOwn keeps a piece that goes back to the vendor as it came. It must be JSON.
func (a *Answer) AddOwn(raw json.RawMessage) {
	a.own = true
	a.opaque.Parts = append(a.opaque.Parts, part{Own: raw})
}

// Response is the whole. name is the model that answered, if the vendor said. An answer
// with calls wants them made, whatever servers that imitate the vendor say.
func (a *Answer) Response(name string, stop model.Stop, usage model.Usage) model.Response {
	res := a.res
	res.Stop, res.Usage = stop, usage
	if name != "" {
		res.Model = name
	}
	switch {
	case stop == model.StopEnd && len(res.Calls) > 0:
		res.Stop = model.StopTools
	case stop == model.StopTools && len(res.Calls) == 0:
		res.Stop = model.StopEnd
	}
	if a.own {
		res.Opaque, _ = json.Marshal(a.opaque) // strings, numbers and valid JSON encode
	}
	return res
}

// Piece is one of text, call and vendor's own.
type Piece struct {
	Text string
	Mark string // of the text
	Call *model.Call
	Own  json.RawMessage
}

// Pieces takes a message of the assistant apart, in the order in which this vendor and
// model made it if they did; otherwise its text comes before its calls.
func Pieces(vendor, name string, m model.Message) []Piece {
	var o opaque
	if json.Unmarshal(m.Opaque, &o) != nil || o.Vendor != vendor || o.Model != name || !o.fits(m) {
		return plain(m)
	}
	var pieces []Piece
	text, calls := m.Text, m.Calls
	for _, p := range o.Parts {
		switch {
		case p.Own != nil:
			pieces = append(pieces, Piece{Own: p.Own})
		case p.Call:
			pieces = append(pieces, Piece{Call: &calls[0]})
			calls = calls[1:]
		default:
			pieces = append(pieces, Piece{Text: text[:p.Text], Mark: p.Mark})
			text = text[p.Text:]
		}
	}
	return pieces
}

func plain(m model.Message) []Piece {
	var pieces []Piece
	if m.Text != "" {
		pieces = append(pieces, Piece{Text: m.Text})
	}
	for i := range m.Calls {
		pieces = append(pieces, Piece{Call: &m.Calls[i]})
	}
	return pieces
}

// fits reports whether the message still is the answer that o came with.
func (o opaque) fits(m model.Message) bool {
	text, calls := 0, 0
	for _, p := range o.Parts {
		if p.Text < 0 {
			return false
		}
		text += p.Text
		if p.Call {
			calls++
		}
	}
	return text == len(m.Text) && calls == len(m.Calls)
}
