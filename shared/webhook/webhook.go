// Package webhook makes named handlers that tell a URL outside of the end of a run, signed
// as the Standard Webhooks specification says (https://www.standardwebhooks.com).
//
// A handler makes one request per attempt and leaves the rest to the slot that it delivers:
// any answer but a 2xx is a failure, and the slot is tried eight times in some eleven
// minutes, with pauses from 5 s that double, before it is dead-lettered; redriving it sends
// it again. A receiver must therefore expect a message more than once, and deduplicates by
// webhook-id, which stays. Two things follow from leaving it to the slot: there is no bound
// of attempts per webhook, because a handler that stopped earlier could only call the
// message delivered, and Retry-After on a 429 or 503 is not honoured.
//
// A 410 means that the receiver wants no more of it: it is final, logged, told in the
// conversation's log as webhook.gone, and the slot is closed.
//
// Verify is for receivers written in Go.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/errand-dev/errand/shared/agent"
)

// Options say where messages go and what they are signed with.
type Options struct {
	// URL receives the messages by POST. It may hold a secret: it is not logged.
	URL string
	// Secrets sign, each with a signature of its own: "whsec_" and at least 24 bytes in
	// base64. To change one, put the new one beside the old until receivers know it.
	Secrets []string
	// Client makes the requests; one of safehttp, for a URL that a user chose. Redirects
	// are not followed, and a request takes 30 s at most, whatever the client allows.
	Client *http.Client
	// Log is given what is final; nil means silence.
	Log *slog.Logger
	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

// Handler makes the handler; register it under a name, for dispatches to name it.
func Handler(o Options) (agent.Handler, error) {
	s, err := newSender(o)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	return s.deliver, nil
}

// goneEvent tells in the conversation's log that a receiver has answered 410.
const goneEvent = "webhook.gone"

// drainBytes of a response are read, so that its connection can be used again.
const drainBytes = 64 << 10

// timeout bounds one request. A receiver that never answers would otherwise hold the
// conversation for as long as its turns may take.
const timeout = 30 * time.Second

type sender struct {
	url     *url.URL
	secrets []*standardwebhooks.Webhook
	client  http.Client
	log     *slog.Logger
	now     func() time.Time
}

func newSender(o Options) (*sender, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("Options.URL is not an address like https://example.com/hook")
	case len(o.Secrets) == 0:
		return nil, errors.New("Options.Secrets is empty; give one or more to sign with")
	case o.Client == nil:
		return nil, errors.New("Options.Client is nil; make one with safehttp.New")
	}
	s := &sender{url: u, client: *o.Client, log: o.Log, now: o.Now}
	s.log = cmp.Or(s.log, slog.New(slog.DiscardHandler))
	if s.now == nil {
		s.now = time.Now
	}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for i, secret := range o.Secrets {
		key, err := keyOf(secret)
		if err != nil {
			return nil, fmt.Errorf("Options.Secrets[%d]: %w", i, err)
		}
		s.secrets = append(s.secrets, key)
	}
	return s, nil
}

func (s *sender) deliver(ctx context.Context, d agent.Delivery) error {
	id := messageID(d)
	within, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	request, err := s.request(within, id, d)
	if err != nil {
		return fmt.Errorf("writing webhook %s: %w", id, err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("sending webhook %s to %s: %w", id, s.url.Host, withoutURL(err))
	}
	defer response.Body.Close()
	io.Copy(io.Discard, io.LimitReader(response.Body, drainBytes)) // whatever it says, its code has said it
	switch code := response.StatusCode; {
	case code >= 200 && code <= 299:
		return nil
	case code == http.StatusGone:
		s.log.WarnContext(ctx, "webhook is gone", "run_id", d.Run.ID, "slot", d.Slot, "host", s.url.Host, "webhook_id", id)
		return d.Emit(ctx, goneEvent, map[string]string{"webhook_id": id, "host": s.url.Host})
	case code >= 300 && code <= 399:
		return fmt.Errorf("webhook %s: %s answered %d %s; redirects are not followed, give the address that it leads to", id, s.url.Host, code, http.StatusText(code))
	default:
		return fmt.Errorf("webhook %s: %s answered %d %s", id, s.url.Host, code, http.StatusText(code))
	}
}

// request is the message, signed. Its timestamp is that of the attempt: receivers refuse
// one that is old.
func (s *sender) request(ctx context.Context, id string, d agent.Delivery) (*http.Request, error) {
	now := s.now()
	body, err := json.Marshal(eventOf(d, now))
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	signatures := make([]string, len(s.secrets))
	for i, secret := range s.secrets {
		if signatures[i], err = secret.Sign(id, now, body); err != nil {
			return nil, err
		}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return request, nil
}

// messageID is made of the delivery's id, which is that of its conversation alone, and
// may hold the dot that a signature separates its parts by. An id of a run can begin anew
// after a clear; the moment of its dispatch tells the two apart.
func messageID(d agent.Delivery) string {
	o := d.Run.Owner
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%d", o.Tenant, o.Conversation, d.ID, d.Run.DispatchedAt.UnixMilli()))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// withoutURL takes the URL out of an error of http.Client: errors are logged and kept.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
