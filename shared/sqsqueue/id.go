package sqsqueue

import (
	"crypto/sha256"
	"encoding/hex"
)

// maxID is the longest message group or deduplication id.
const maxID = 128

// legalID returns id if SQS takes it: 1 to 128 printable ASCII characters, no
// space. Anything else becomes its hash, so that different ids stay different.
func legalID(id string) string {
	legal := id != "" && len(id) <= maxID
	for i := 0; legal && i < len(id); i++ {
		legal = '!' <= id[i] && id[i] <= '~'
	}
	if legal {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:])
}
