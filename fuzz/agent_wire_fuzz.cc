#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "agent/agent_wire.h"
#include "agent/job_status.h"
#include "agent/status_wire.h"
#include "watch/job_watch.h"

namespace {

using namespace trireme;

void require(bool holds) {
  if (!holds) std::abort();
}

// Each piece has a head of 12 bytes: its kind, the number of bytes that follow it, and its own.
void add_pieces(std::span<const std::byte> bytes) {
  constexpr size_t kHeadBytes = 12;
  StatusPieces pieces;
  while (bytes.size() >= kHeadBytes) {
    int64_t following = 0;
    uint16_t own = 0;
    std::memcpy(&following, bytes.data() + 2, sizeof following);
    std::memcpy(&own, bytes.data() + 10, sizeof own);
    const auto kind = static_cast<StatusAnswer::Kind>(bytes[0]);
    bytes = bytes.subspan(kHeadBytes);
    const auto body = bytes.first(std::min<size_t>(own, bytes.size()));
    bytes = bytes.subspan(body.size());
    const auto is_whole = pieces.add({.kind = kind, .following = following, .bytes = body});
    if (!is_whole.ok()) return;
    if (!*is_whole) continue;
    const StatusAnswer answer = pieces.take();
    require(int64_t(answer.text.size()) <= kMostStatusBytes);
    StatusPieces again;
    bool came_back = false;
    for (const StatusPiece& piece : pieces_of(answer)) came_back = again.add(piece).value();
    require(came_back && again.take().text == answer.text);
  }
}

}  // namespace

// The first byte chooses the message between a leader and an agent. Texts that are taken come back,
// and ranks that are taken are below the size of their job.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (data[0] % 12) {
    case 0: {
      const auto message = check_agent_message(bytes);
      require(!message.ok() || message->body_bytes <= kMostAgentBody);
      break;
    }
    case 1: {
      const auto terms = check_terms(text);
      if (!terms.ok()) break;
      require(terms->ranks > 0 && !terms->command.empty());
      require(to_json(check_terms(to_json(*terms)).value()) == to_json(*terms));
      break;
    }
    case 2: {
      const auto start = check_start(text);
      if (!start.ok()) break;
      require(start->place.rank >= 0 && start->place.rank < start->place.size);
      require(to_json(check_start(to_json(*start)).value()) == to_json(*start));
      break;
    }
    case 3: {
      const auto order = check_order(bytes);
      if (!order.ok()) break;
      require(order->rank >= 0 && order->rank < order->size);
      require(order->layout.num_ranks() == order->size && !text_of(order->layout).empty());
      require(std::strlen(order->failures) < sizeof order->failures);
      break;
    }
    case 4: {
      const auto report = check_report(bytes);
      require(!report.ok() || std::strlen(report->text) < sizeof report->text);
      break;
    }
    case 5: {
      const auto failure = check_failure(text);
      if (failure.ok()) require(check_failure(to_json(*failure)).ok());
      break;
    }
    case 6: {
      const auto end = check_end(text);
      if (end.ok()) require(check_end(to_json(*end)).ok());
      break;
    }
    case 7: {
      const auto process = check_living(bytes);
      require(!process.ok() || process->rank < process->size);
      break;
    }
    case 8: {
      const auto message = check_membership(bytes);
      require(!message.ok() || message->epoch >= 0);
      break;
    }
    case 10:
      add_pieces(bytes);
      break;
    case 11: {
      const auto watched = check_watched(bytes);
      if (!watched.ok()) break;
      JobWatch watch;
      int64_t now_ns = 1;
      for (int report = 0; report < JobWatch::kReports; ++report) {
        watch.take(0, ++now_ns, *watched);
        (void)watch.look(now_ns);
        (void)watch.take_slow(int(watched->size()));
      }
      const std::vector<WatchedWords> words = words_of(*watched);
      require(words.size() <= kMostWatched);
      require(check_watched(std::as_bytes(std::span(words))).ok());
      break;
    }
    default: {
      const auto values = check_page(bytes);
      require(!values.ok() || size_t(values->measured_bytes) <= values->measured.size());
    }
  }
  return 0;
}
