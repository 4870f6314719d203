#include "agent/status_wire.h"

#include <algorithm>
#include <utility>

#include "agent/agent_wire.h"
#include "agent/job_status.h"
#include "base/sealed_json.h"

namespace trireme {
namespace {

constexpr size_t kMostAddressBytes = 255;

Error wrong_answer(const std::string& what) {
  return damaged("the answer to a question about the status of a job is damaged: " + what);
}

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

Status check_answer_text(const StatusAnswer& answer) {
  if (answer.kind == StatusAnswer::Kind::Record) {
    const Status seal = check_seal(answer.text);
    return seal.ok() ? Status(Done{}) : wrong_answer(seal.error().message);
  }
  const size_t bytes = answer.text.size();
  const bool is_address = bytes > 0 && bytes <= kMostAddressBytes && is_printable(answer.text);
  const bool needs_address = answer.kind == StatusAnswer::Kind::Elsewhere;
  if (needs_address ? is_address : bytes == 0) return Done{};
  return wrong_answer("its text does not suit its kind");
}

}  // namespace

std::vector<StatusPiece> pieces_of(const StatusAnswer& answer) {
  std::vector<StatusPiece> pieces;
  std::span<const std::byte> rest = std::as_bytes(std::span(answer.text));
  do {
    const auto bytes = rest.first(std::min<size_t>(rest.size(), kMostAgentBody));
    rest = rest.subspan(bytes.size());
    pieces.push_back({.kind = answer.kind, .following = int64_t(rest.size()), .bytes = bytes});
  } while (!rest.empty());
  return pieces;
}

Result<bool> StatusPieces::add(const StatusPiece& piece) {
  const auto had = int64_t(answer_.text.size());
  const auto bytes = int64_t(piece.bytes.size());
  if (static_cast<uint64_t>(piece.kind) > static_cast<uint64_t>(StatusAnswer::Kind::NoLeader)) {
    return wrong_answer("its kind is unknown");
  }
  const bool is_first = had == 0;
  const bool has_place = piece.following >= 0 && piece.following <= kMostStatusBytes &&
                         had + bytes + piece.following <= kMostStatusBytes &&
                         (bytes > 0 || (is_first && piece.following == 0));
  const bool is_next =
      is_first || (piece.kind == answer_.kind && bytes + piece.following == missing_);
  if (!has_place || !is_next) return wrong_answer("its pieces do not fit together");
  answer_.kind = piece.kind;
  answer_.text.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
  missing_ = piece.following;
  if (missing_ > 0) return false;
  TRIREME_TRY_DONE(check_answer_text(answer_));
  return true;
}

StatusAnswer StatusPieces::take() { return std::exchange(answer_, {}); }

}  // namespace trireme
