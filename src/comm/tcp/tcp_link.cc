#include "comm/tcp/tcp_link.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace trireme {
namespace {

constexpr int64_t kHeadBytes = int64_t(sizeof(TcpFrame));
constexpr int64_t kBufferBytes = int64_t{64} << 10;
constexpr size_t kOutBytes = size_t{256} << 10;
constexpr size_t kSends = 64;
constexpr int kMostTurns = 16;  // of one call, so that other links get theirs

static_assert(kBufferBytes >= 2 * (kHeadBytes + int64_t(sizeof(NewsMessage))));

iovec part(const void* data, int64_t bytes) { return {const_cast<void*>(data), size_t(bytes)}; }

}  // namespace

TcpLink::TcpLink(int peer, uint64_t epoch, std::unique_ptr<ByteStream> stream)
    : peer_(peer),
      epoch_(epoch),
      stream_(std::move(stream)),
      has_checksums_(stream_->leaves_host()) {
  out_.reserve(kOutBytes);
  accepted_.reserve(kSends);
  sends_.reserve(kSends);
  orphan_.reserve(size_t(kTcpSegmentBytes));
  in_.resize(size_t(kBufferBytes));
  staging_.resize(size_t(kTcpSegmentBytes));
}

// Nothing of the frame may change afterwards.
void TcpLink::add_checksums(TcpFrame& frame, Bytes body, Bytes more_body) const {
  if (!has_checksums_) return;
  frame.body_checksum = body_checksum(body, more_body);
  seal(frame);
}

void TcpLink::send(TcpFrame frame, Bytes body, Bytes more_body) {
  frame.epoch = epoch_;
  frame.body_bytes = int64_t(body.size() + more_body.size());
  add_checksums(frame, body, more_body);
  for (const Bytes bytes : {bytes_of(frame), body, more_body}) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
}

void TcpLink::send_payload(TcpMessage& message) { accepted_.push_back(&message); }

void TcpLink::forget(TcpMessage& message) {
  std::erase(accepted_, &message);
  std::erase(sends_, &message);
  if (landing_ == &message) landing_ = nullptr;
  if (segment_of_ != &message) return;
  // The peer still expects the rest of the segment.
  orphan_.assign(segment_, segment_ + segment_bytes_);
  segment_ = orphan_.data();
  segment_of_ = nullptr;
}

void TcpLink::begin_segment() {
  TcpMessage& message = *sends_.front();
  segment_of_ = &message;
  segment_ = message.transfer->source + message.moved;
  segment_bytes_ = std::min(kTcpSegmentBytes, message.transfer->bytes - message.moved);
  segment_left_ = kHeadBytes + segment_bytes_;
  segment_head_ = {.kind = FrameKind::Payload,
                   .epoch = epoch_,
                   .receiver = message.number_of_peer,
                   .body_bytes = segment_bytes_};
  add_checksums(segment_head_, Bytes(segment_, size_t(segment_bytes_)));
}

void TcpLink::end_segment() {
  TcpMessage* const message = std::exchange(segment_of_, nullptr);
  if (message == nullptr) return;
  message->moved += segment_bytes_;
  std::erase(sends_, message);
  message->is_done = message->moved == message->transfer->bytes;
  if (!message->is_done) sends_.push_back(message);
}

bool TcpLink::write_some() {
  if (segment_left_ > 0) {
    const int64_t head_left = std::max<int64_t>(segment_left_ - segment_bytes_, 0);
    const int64_t body_left = std::min(segment_left_, segment_bytes_);
    const auto* head = reinterpret_cast<const std::byte*>(&segment_head_);
    const std::array parts = {part(head + (kHeadBytes - head_left), head_left),
                              part(segment_ + (segment_bytes_ - body_left), body_left)};
    const int64_t written = stream_->write(parts);
    segment_left_ -= written;
    if (segment_left_ == 0) end_segment();
    return written > 0;
  }
  if (out_begin_ < out_.size()) {
    const std::array parts = {part(out_.data() + out_begin_, int64_t(out_.size() - out_begin_))};
    const int64_t written = stream_->write(parts);
    out_begin_ += size_t(written);
    if (out_begin_ == out_.size()) {
      out_.clear();
      out_begin_ = 0;
    }
    return written > 0;
  }
  if (sends_.empty()) return false;
  begin_segment();
  return write_some();
}

bool TcpLink::flush() {
  bool moved = false;
  for (int turn = 0; turn < kMostTurns && write_some(); ++turn) moved = true;
  sends_.insert(sends_.end(), accepted_.begin(), accepted_.end());
  accepted_.clear();
  return moved;
}

Status TcpLink::begin_payload(Receiver& receiver, const TcpFrame& frame) {
  TRIREME_TRY(message, receiver.on_payload(*this, frame));
  landing_ = message;
  landing_frame_ = frame;
  landing_bytes_ = landing_left_ = frame.body_bytes;
  in_begin_ += kHeadBytes;
  return Done{};
}

// Takes the next frame out of the buffer. False if it is not complete yet.
Result<bool> TcpLink::take_frame(Receiver& receiver) {
  if (buffered() < kHeadBytes) return false;
  const Bytes head(in_.data() + in_begin_, size_t(kHeadBytes));
  TRIREME_TRY(frame, check_frame(head));
  if (has_checksums_) TRIREME_TRY_DONE(check_head_checksum(frame));
  if (frame.epoch != epoch_) {
    if (on_other_epoch) on_other_epoch(frame.epoch);
    landing_ = nullptr;  // the body goes to the staging memory
    landing_bytes_ = landing_left_ = frame.body_bytes;
    in_begin_ += kHeadBytes;
    return true;
  }
  if (frame.kind == FrameKind::Payload) {
    TRIREME_TRY_DONE(begin_payload(receiver, frame));
    return true;
  }
  if (buffered() < kHeadBytes + frame.body_bytes) return false;
  const Bytes body(in_.data() + in_begin_ + kHeadBytes, size_t(frame.body_bytes));
  if (has_checksums_) TRIREME_TRY_DONE(check_body_checksum(frame, body));
  TRIREME_TRY_DONE(receiver.on_frame(*this, frame, body));
  in_begin_ += kHeadBytes + frame.body_bytes;
  return true;
}

// `bytes` of the segment have arrived, in the target or in the staging memory.
Status TcpLink::end_landing(int64_t bytes) {
  landing_left_ -= bytes;
  const bool is_copied = landing_ != nullptr && landing_->transfer->landing == Landing::Copy;
  if (is_copied) landing_->moved += bytes;
  if (landing_left_ > 0) return Done{};
  TcpMessage* const message = std::exchange(landing_, nullptr);
  if (message == nullptr) return Done{};
  if (has_checksums_) {
    const std::byte* segment =
        is_copied ? message->transfer->target + message->moved - landing_bytes_ : staging_.data();
    TRIREME_TRY_DONE(check_body_checksum(landing_frame_, Bytes(segment, size_t(landing_bytes_))));
  }
  if (!is_copied) {
    land(*message->transfer, message->moved, staging_.data(), landing_bytes_);
    message->moved += landing_bytes_;
  }
  message->is_done = message->moved == message->transfer->bytes;
  return Done{};
}

Status TcpLink::land_buffered() {
  const int64_t bytes = std::min(buffered(), landing_left_);
  const bool is_copied = landing_ != nullptr && landing_->transfer->landing == Landing::Copy;
  std::byte* target = is_copied ? landing_->transfer->target + landing_->moved
                                : staging_.data() + (landing_bytes_ - landing_left_);
  std::memcpy(target, in_.data() + in_begin_, size_t(bytes));
  in_begin_ += bytes;
  return end_landing(bytes);
}

// Reads payload to its place, and what comes behind it into the buffer. Behind payload this is only
// the next head: if it announces more payload, that is not copied twice.
Result<bool> TcpLink::read_some() {
  if (in_begin_ == in_end_) {
    in_begin_ = in_end_ = 0;
  } else if (in_end_ > kBufferBytes / 2) {
    std::memmove(in_.data(), in_.data() + in_begin_, size_t(buffered()));
    in_end_ -= std::exchange(in_begin_, 0);
  }
  const bool is_copied = landing_ != nullptr && landing_->transfer->landing == Landing::Copy;
  std::byte* target = is_copied ? landing_->transfer->target + landing_->moved
                                : staging_.data() + (landing_bytes_ - landing_left_);
  const int64_t behind = landing_left_ > 0 ? kHeadBytes : kBufferBytes - in_end_;
  const std::array parts = {part(target, landing_left_), part(in_.data() + in_end_, behind)};
  const int64_t got =
      stream_->read(landing_left_ > 0 ? std::span(parts) : std::span(parts).subspan(1));
  const int64_t landed = std::min(got, landing_left_);
  in_end_ += got - landed;
  if (landed > 0) TRIREME_TRY_DONE(end_landing(landed));
  return got > 0;
}

Result<bool> TcpLink::receive(Receiver& receiver) {
  bool moved = false;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    while (landing_left_ > 0 ? buffered() > 0 : true) {
      if (landing_left_ > 0) {
        TRIREME_TRY_DONE(land_buffered());
        continue;
      }
      TRIREME_TRY(taken, take_frame(receiver));
      if (!taken) break;
    }
    TRIREME_TRY(got, read_some());
    if (!got) {
      stream_->wake_at(landing_left_);
      break;
    }
    moved = true;
  }
  return moved;
}

}  // namespace trireme
