#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "comm/tcp/wire.h"

namespace {

using namespace trireme;

void require(bool holds) {
  if (!holds) std::abort();
}

// A struct that passes its check is the one that was received, and its texts have an end.
template <typename T>
void require_same(const Result<T>& checked, Bytes bytes) {
  require(!checked.ok() || std::memcmp(&*checked, bytes.data(), bytes.size()) == 0);
}

void check_stream(Bytes bytes) {
  while (bytes.size() >= sizeof(TcpFrame)) {
    const Bytes head = bytes.first(sizeof(TcpFrame));
    const Result<TcpFrame> frame = check_frame(head);
    require_same(frame, head);
    if (!frame.ok()) return;
    require(frame->body_bytes >= 0 && frame->body_bytes <= kTcpSegmentBytes);
    bytes = bytes.subspan(sizeof(TcpFrame));
    if (size_t(frame->body_bytes) > bytes.size()) return;
    const Bytes body = bytes.first(size_t(frame->body_bytes));
    bytes = bytes.subspan(body.size());
    if (frame->kind == FrameKind::Announce) {
      const Result<Announcement> announcement = check_announcement(*frame, body);
      if (!announcement.ok()) return;
      require(!to_string(announcement->signature).empty());
      require(int64_t(announcement->payload.size()) <= kTcpInlineBytes);
    } else if (frame->kind == FrameKind::News) {
      const Result<NewsMessage> news = check_news(body, 4);
      if (!news.ok()) return;
      require(news->rank >= 0 && news->rank < 4);
      require(std::strlen(news->cause) < sizeof news->cause);
      require(!to_string(news->wait.what).empty());
    }
  }
}

}  // namespace

// The first byte chooses the message: one of joining, or a stream of frames.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Bytes bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 6) {
    case 0:
      require_same(check_hello(bytes), bytes);
      break;
    case 1:
      require_same(check_answer(bytes), bytes);
      break;
    case 2:
      require_same(check_introduction(bytes, 4), bytes);
      break;
    case 3: {
      const Result<std::vector<Introduction>> roster = check_roster(bytes, 4);
      if (!roster.ok()) break;
      for (int rank = 0; rank < 4; ++rank) {
        const Introduction& known = (*roster)[size_t(rank)];
        require(known.window.rank == rank && std::strlen(known.address.data()) < 64);
      }
      break;
    }
    case 4: {
      const Result<std::vector<int32_t>> nodes = check_nodes(bytes, 4);
      for (int rank = 0; nodes.ok() && rank < 4; ++rank) {
        require((*nodes)[size_t(rank)] >= 0 && (*nodes)[size_t(rank)] <= rank);
      }
      break;
    }
    default:
      check_stream(bytes);
  }
  return 0;
}
