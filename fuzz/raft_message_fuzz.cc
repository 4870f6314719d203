#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "raft/members.h"
#include "raft/raft_core.h"

namespace {

using namespace trireme;

void require(bool holds) {
  if (!holds) std::abort();
}

// Gives the message to a server. The server may find that the message contradicts its log, and end
// with an exception. Nothing else may go wrong.
void give_to_server(const RaftMessage& message) {
  RaftOptions options{.id = 2, .first_members = {{{1, "a:1"}, {2, "b:1"}, {3, "c:1"}}}};
  LogContents contents;
  contents.vote = {.term = 2, .candidate = 0};
  contents.entries = {{1, 1, EntryKind::Nothing, ""}, {2, 2, EntryKind::Command, "x"}};
  RaftCore core(options, contents, 0.0);
  try {
    for (const ServerId to : {message.to, ServerId{2}}) {
      RaftMessage addressed = message;
      addressed.to = to;
      core.receive(addressed, 0.1);
      RaftOutput output = core.take_output(0.1);
      if (output.write) core.written(output.write->number);
      core.tick(10.0);
      output = core.take_output(10.0);
      for (const RaftMessage& sent : output.messages) {
        require(decode_message(encode_message(sent)).ok());
      }
    }
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace

// The first byte chooses whether the others are a message between servers of a log, a segment of a
// log, or a snapshot. A message that was read and written again stays the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) {
    const Result<RaftMessage> message = decode_message(bytes);
    if (!message.ok()) return 0;
    const std::string again = encode_message(*message);
    const Result<RaftMessage> same = decode_message(again);
    require(same.ok() && encode_message(*same) == again);
    give_to_server(*message);
  } else if (data[0] % 3 == 1) {
    const Result<Segment> segment = parse_segment(bytes, 1, "log-1");
    if (segment.ok()) require(segment->whole_bytes <= int64_t(bytes.size()));
  } else {
    const Result<LogSnapshot> snapshot = parse_snapshot(bytes, "snapshot");
    if (snapshot.ok()) require(encode_snapshot(*snapshot) == bytes);
  }
  return 0;
}
