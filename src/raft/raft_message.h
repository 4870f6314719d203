#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "raft/log_format.h"

namespace trireme {

struct RaftMessage {
  enum class Kind : uint8_t {
    PreVote,       // would you vote for me in this term? index and log_term: of my last entry
    PreVoteReply,  // is_granted
    Vote,          // vote for me in this term. index and log_term as in PreVote
    VoteReply,     // is_granted; a vote is on the disk before it is sent
    Append,        // entries after entry `index` of term log_term; commit
    AppendReply,   // is_granted: entries up to `index` are on the disk. Otherwise the entry `index`
                   // of the Append is missing: hint and log_term say where to look
    Snapshot,      // the state after entry `index`; answered by an AppendReply
  };
  Kind kind = Kind::Append;
  ServerId from = 0;
  ServerId to = 0;
  // The address at which the sender listens. The answer goes there, because the log of the receiver
  // may not have the sender. It is empty in the simulator, which has no addresses.
  std::string from_address;
  int64_t term = 0;
  int64_t index = 0;
  int64_t log_term = 0;
  int64_t commit = 0;
  // Append, Snapshot: number of the newest question about leadership. AppendReply: the same number.
  int64_t round = 0;
  int64_t hint = 0;  // AppendReply: first entry of the term log_term, or the entry after the last
  bool is_granted = false;
  std::vector<LogEntry> entries;
  std::shared_ptr<const LogSnapshot> snapshot;  // shared with the server that sends it; not changed
};

// The greatest number that a message may have, so that sums of a few numbers do not overflow.
inline constexpr int64_t kMostMessageNumber = int64_t{1} << 62;

std::string encode_message(const RaftMessage& message);
// Returns the first of two parts of the same bytes, so that many messages share those of one
// snapshot. The second part is encode_snapshot(*message.snapshot), which has `snapshot_bytes` bytes
// and a checksum of its own.
std::string encode_message_head(const RaftMessage& message, size_t snapshot_bytes);
// Checks lengths, kinds and the sizes of numbers, and that entries follow each other.
Result<RaftMessage> decode_message(std::string_view bytes);

}  // namespace trireme
