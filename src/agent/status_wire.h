#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// An agent gives this answer to `trireme status ADDRESS`.
struct StatusAnswer {
  enum class Kind : int64_t {
    Record,     // text: the status that the leader has written last, with its checksum
    Elsewhere,  // text: the address of the agent that leads
    NotBegun,   // the job has not begun to train
    NoLeader,   // no agent leads now
  };
  Kind kind = Kind::NoLeader;
  std::string text = {};
};

// A record may be longer than the body of a message, so an answer travels in one or more pieces.
struct StatusPiece {
  StatusAnswer::Kind kind = StatusAnswer::Kind::NoLeader;
  int64_t following = 0;  // bytes of the text in later pieces
  std::span<const std::byte> bytes = {};
};
// The pieces lie in the answer.
std::vector<StatusPiece> pieces_of(const StatusAnswer& answer);

// Puts the pieces that have arrived together again.
class StatusPieces {
 public:
  // Returns true once the answer is whole. An error means that the sender is no agent.
  Result<bool> add(const StatusPiece& piece);
  StatusAnswer take();

 private:
  StatusAnswer answer_;
  int64_t missing_ = 0;  // bytes
};

}  // namespace trireme
