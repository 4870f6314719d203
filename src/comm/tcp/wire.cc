#include "comm/tcp/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/hash.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "messages are sent as they lie");

Error refuse(const char* what, const std::string& why) {
  return {ErrorKind::Runtime,
          fmt::format("a {} that is not one of Trireme was received: {}; check that nothing else "
                      "uses this port, and that all hosts run the same version",
                      what, why)};
}

// Copies a struct of fixed size.
template <typename T>
Result<T> copy_of(Bytes bytes, const char* what) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() != sizeof(T)) {
    return refuse(what, fmt::format("{} bytes instead of {}", bytes.size(), sizeof(T)));
  }
  T value;
  std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(T));
  return value;
}

template <size_t N>
bool ends_with_0(const char (&text)[N]) {
  return std::memchr(text, 0, N) != nullptr;
}
template <size_t N>
bool ends_with_0(const std::array<char, N>& text) {
  return std::memchr(text.data(), 0, N) != nullptr;
}

uint64_t head_checksum(const TcpFrame& frame) {
  return hash64(bytes_of(frame).first(offsetof(TcpFrame, head_checksum)));
}

Error changed_on_its_way(const std::string& what) {
  return {ErrorKind::Runtime,
          what +
              " has another checksum than its sender gave it: an adapter, a link, a switch or "
              "a memory has changed a bit"};
}

// Every byte value may be received for an enum, so the number is compared.
template <typename E>
bool is_at_most(E value, E last) {
  return std::underlying_type_t<E>(value) <= std::underlying_type_t<E>(last) &&
         std::underlying_type_t<E>(value) >= 0;
}

bool is_rank(int32_t rank, int size) { return rank >= 0 && rank < size; }

bool is_signature(const SignatureRecord& record) {
  return is_at_most(record.collective, Collective::Recv) && is_at_most(record.op, ReduceOp::Min) &&
         is_at_most(record.dtype, DType::U8) && is_at_most(record.algorithm, Algorithm::Native) &&
         ends_with_0(record.file) && ends_with_0(record.group_name);
}

}  // namespace

Result<Hello> check_hello(Bytes bytes) {
  TRIREME_TRY(hello, copy_of<Hello>(bytes, "greeting"));
  if (hello.magic != Hello{}.magic) return refuse("greeting", "it begins with other bytes");
  if (!is_at_most(hello.purpose, Purpose::Parts)) return refuse("greeting", "an unknown purpose");
  if (hello.rank < -1 || hello.rank >= kLargestTcpWorld) {
    return refuse("greeting", fmt::format("rank {}", hello.rank));
  }
  return hello;
}

Result<Answer> check_answer(Bytes bytes) {
  TRIREME_TRY(answer, copy_of<Answer>(bytes, "answer"));
  if (!is_at_most(answer.verdict, Verdict::RankTaken)) {
    return refuse("answer", "an unknown verdict");
  }
  return answer;
}

Result<Introduction> check_introduction(Bytes bytes, int size) {
  TRIREME_TRY(intro, copy_of<Introduction>(bytes, "introduction"));
  if (!is_rank(intro.window.rank, size)) {
    return refuse("introduction", fmt::format("rank {} of {}", intro.window.rank, size));
  }
  if (!ends_with_0(intro.host) || !ends_with_0(intro.address)) {
    return refuse("introduction", "a text without an end");
  }
  const int64_t last = SharedWindow::bytes();
  if (intro.inbox < 0 || intro.inbox >= last || intro.inbox % 64 != 0) {
    return refuse("introduction", fmt::format("inboxes at byte {}", intro.inbox));
  }
  return intro;
}

Result<std::vector<Introduction>> check_roster(Bytes bytes, int size) {
  if (bytes.size() != size_t(size) * sizeof(Introduction)) {
    return refuse("list of ranks", fmt::format("{} bytes for {} ranks", bytes.size(), size));
  }
  std::vector<Introduction> roster;
  for (int rank = 0; rank < size; ++rank) {
    TRIREME_TRY(
        intro, check_introduction(
                   bytes.subspan(size_t(rank) * sizeof(Introduction), sizeof(Introduction)), size));
    if (intro.window.rank != rank) {
      return refuse("list of ranks", fmt::format("rank {} at place {}", intro.window.rank, rank));
    }
    roster.push_back(intro);
  }
  return roster;
}

Result<std::vector<int32_t>> check_nodes(Bytes bytes, int size) {
  if (bytes.size() != size_t(size) * sizeof(int32_t)) {
    return refuse("list of nodes", fmt::format("{} bytes for {} ranks", bytes.size(), size));
  }
  std::vector<int32_t> nodes(static_cast<size_t>(size));
  if (!bytes.empty()) std::memcpy(nodes.data(), bytes.data(), bytes.size());
  for (int rank = 0; rank < size; ++rank) {
    const int32_t first = nodes[size_t(rank)];
    if (!is_rank(first, rank + 1) || nodes[size_t(first)] != first) {
      return refuse("list of nodes", fmt::format("rank {} on the node of rank {}", rank, first));
    }
  }
  return nodes;
}

Result<TcpFrame> check_frame(Bytes bytes) {
  TRIREME_TRY(frame, copy_of<TcpFrame>(bytes, "message"));
  if (frame.magic != TcpFrame{}.magic) return refuse("message", "it begins with other bytes");
  if (!is_at_most(frame.kind, FrameKind::News) || !is_at_most(frame.lane, Lane::Direct)) {
    return refuse("message", fmt::format("kind {}, lane {}", int(frame.kind), int(frame.lane)));
  }
  if (frame.group < 0 || frame.group >= kTcpGroups || frame.tag < 0) {
    return refuse("message", fmt::format("group {}, tag {}", frame.group, frame.tag));
  }
  int64_t least = 0;
  int64_t most = 0;
  if (frame.kind == FrameKind::Announce) {
    const bool is_short = frame.message_bytes <= kTcpInlineBytes;
    least = most = int64_t(sizeof(SignatureRecord)) + (is_short ? frame.message_bytes : 0);
  } else if (frame.kind == FrameKind::Payload) {
    least = 1;
    most = kTcpSegmentBytes;
  } else if (frame.kind == FrameKind::News) {
    least = int64_t(offsetof(NewsMessage, cause));
    most = int64_t(sizeof(NewsMessage));
  }
  if (frame.message_bytes < 0 || frame.body_bytes < least || frame.body_bytes > most) {
    return refuse("message", fmt::format("{} bytes of {} behind a head of kind {}",
                                         frame.body_bytes, frame.message_bytes, int(frame.kind)));
  }
  return frame;
}

uint64_t body_checksum(Bytes body, Bytes more_body) {
  const uint64_t first = hash64(body);
  return more_body.empty() ? first : hash64(more_body, first);
}

void seal(TcpFrame& frame) { frame.head_checksum = head_checksum(frame); }

Status check_head_checksum(const TcpFrame& frame) {
  if (frame.head_checksum == head_checksum(frame)) return Done{};
  return changed_on_its_way("the head of a message");
}

Status check_body_checksum(const TcpFrame& frame, Bytes body) {
  const bool has_two_parts = frame.kind == FrameKind::Announce;
  const size_t first = has_two_parts ? std::min(body.size(), sizeof(SignatureRecord)) : body.size();
  if (frame.body_checksum == body_checksum(body.first(first), body.subspan(first))) return Done{};
  return changed_on_its_way(fmt::format("a message of {} bytes", body.size()));
}

Result<Announcement> check_announcement(const TcpFrame& frame, Bytes body) {
  const bool is_short = frame.message_bytes <= kTcpInlineBytes;
  const size_t payload = is_short ? size_t(frame.message_bytes) : 0;
  if (body.size() != sizeof(SignatureRecord) + payload) {
    return refuse("message", fmt::format("{} bytes, announced as {}", body.size(), payload));
  }
  TRIREME_TRY(signature,
              copy_of<SignatureRecord>(body.first(sizeof(SignatureRecord)), "signature"));
  if (!is_signature(signature)) return refuse("signature", "an unknown kind of call");
  return Announcement{signature, body.subspan(sizeof(SignatureRecord))};
}

Result<NewsMessage> check_news(Bytes body, int size) {
  if (body.size() < offsetof(NewsMessage, cause) || body.size() > sizeof(NewsMessage)) {
    return refuse("report", fmt::format("{} bytes", body.size()));
  }
  NewsMessage news;
  std::memcpy(static_cast<void*>(&news), body.data(), body.size());
  if (!is_at_most(news.kind, NewsMessage::Kind::Progress) ||
      !is_at_most(news.error_kind, ErrorKind::Runtime) || !is_rank(news.rank, size)) {
    return refuse("report", fmt::format("kind {} of rank {}", int(news.kind), news.rank));
  }
  const bool waits_for_a_rank = news.wait.peer == -1 || is_rank(news.wait.peer, size);
  if (!waits_for_a_rank || !is_signature(news.wait.what)) {
    return refuse("report", "a wait in an unknown call");
  }
  if (!ends_with_0(news.cause) || !ends_with_0(news.progress_call.call) ||
      !ends_with_0(news.progress_call.subject)) {
    return refuse("report", "a text without an end");
  }
  return news;
}

}  // namespace trireme
