#include "comm/mpi/mpi_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "comm/waiter.h"

namespace trireme {
namespace {

constexpr int kTagBits = 14;
constexpr int kMaxGroups = 1 << 12;

}  // namespace

MpiTransport::MpiTransport(MPI_Comm comm, Fabric& fabric, GroupShape shape, FaultHook hook)
    : comm_(comm), fabric_(fabric), shape_(std::move(shape)), hook_(std::move(hook)) {
  TRIREME_CHECK(shape_.id < kMaxGroups, "too many groups");
}

// After an abort MPI may still write to cancelled transfers until the process exits, so the pool is
// not freed then.
MpiTransport::~MpiTransport() {
  if (!fabric_.aborted()) return;
  for (std::unique_ptr<State>& state : pool_) static_cast<void>(state.release());
}

MpiTransport::State* MpiTransport::acquire() {
  if (free_.empty()) {
    pool_.push_back(std::make_unique<State>());
    free_.reserve(pool_.size());
    return pool_.back().get();
  }
  State* state = free_.back();
  free_.pop_back();
  return state;
}

// Fields of the tag: group | lane | frame or payload | the caller's tag. It must be below 2^29.
int MpiTransport::tag_of(const Transfer& t, bool payload) const {
  TRIREME_CHECK(t.tag >= 0 && t.tag < 1 << kTagBits, fmt::format("tag {} is too large", t.tag));
  return ((shape_.id * 2 + int(t.lane)) * 2 + int(payload)) << kTagBits | t.tag;
}

void MpiTransport::post(Transfer& t) {
  if (hook_) hook_(shape_.members[size_t(shape_.rank)]);
  State& state = *acquire();
  t.state = &state;
  turns_.join(t);
  state.begun = state.ended = 0;
  state.frame_done = state.passed = false;
  state.requests.fill(MPI_REQUEST_NULL);
  const int peer = shape_.members[size_t(t.peer)];
  const bool is_short = t.bytes <= kInlineBytes;
  const int frame_bytes = int(offsetof(Frame, payload) + size_t(is_short ? t.bytes : 0));
  if (!t.is_send) {
    MPI_Irecv(&state.frame, int(sizeof(Frame)), MPI_BYTE, peer, tag_of(t, false), comm_,
              &state.frame_request);
    return;
  }
  state.frame.bytes = t.bytes;
  state.frame.signature = record_of(*t.signature);
  if (is_short && t.bytes > 0) std::memcpy(state.frame.payload, t.source, size_t(t.bytes));
  MPI_Isend(&state.frame, frame_bytes, MPI_BYTE, peer, tag_of(t, false), comm_,
            &state.frame_request);
}

void MpiTransport::check_call(const Transfer& t, const Frame& frame) {
  const SignatureRecord mine = record_of(*t.signature);
  const bool same_length = frame.bytes == t.bytes;
  const bool same = t.lane == Lane::Collective ? mine.hash == frame.signature.hash && same_length
                                               : mine.dtype == frame.signature.dtype && same_length;
  if (same) return;
  const int rank = shape_.members[size_t(shape_.rank)];
  fabric_.abort(rank, mismatch_text(rank, mine, shape_.members[size_t(t.peer)], frame.signature));
  fabric_.throw_aborted(rank, to_string(mine));
}

bool MpiTransport::test_frame(Transfer& t, State& state) {
  if (state.frame_done) return true;
  // A frame that arrived after an earlier transfer was polled must not be handled before that
  // transfer.
  if (!t.is_send && !turns_.is_next(t)) return false;
  int done = 0;
  MPI_Test(&state.frame_request, &done, MPI_STATUS_IGNORE);
  if (done == 0) return false;
  state.frame_done = true;
  if (t.is_send) return true;
  check_call(t, state.frame);
  if (t.bytes <= kInlineBytes) land(t, 0, state.frame.payload, t.bytes);
  return true;
}

// Keeps up to kWindow segments in flight. Received ones are written in order.
bool MpiTransport::test_segments(Transfer& t, State& state) {
  if (t.bytes <= kInlineBytes) {
    if (!state.passed) turns_.pass(t);
    state.passed = true;
    return true;
  }
  if (!state.passed && !turns_.is_next(t)) return false;
  const int64_t count = (t.bytes + kSegmentBytes - 1) / kSegmentBytes;
  const bool staged = !t.is_send && t.landing != Landing::Copy;
  if (staged) state.staging.resize(size_t(kWindow * kSegmentBytes));
  const int peer = shape_.members[size_t(t.peer)];
  const auto length = [&](int64_t segment) {
    return std::min(kSegmentBytes, t.bytes - segment * kSegmentBytes);
  };
  while (state.ended < count) {
    while (state.begun < count && state.begun < state.ended + kWindow) {
      const int64_t segment = state.begun++;
      MPI_Request& request = state.requests[size_t(segment % kWindow)];
      const int64_t offset = segment * kSegmentBytes;
      if (t.is_send) {
        MPI_Isend(t.source + offset, int(length(segment)), MPI_BYTE, peer, tag_of(t, true), comm_,
                  &request);
      } else {
        std::byte* place =
            staged ? state.staging.data() + segment % kWindow * kSegmentBytes : t.target + offset;
        MPI_Irecv(place, int(length(segment)), MPI_BYTE, peer, tag_of(t, true), comm_, &request);
      }
    }
    if (state.begun == count && !state.passed) {
      turns_.pass(t);
      state.passed = true;
    }
    const int64_t segment = state.ended;
    int done = 0;
    MPI_Test(&state.requests[size_t(segment % kWindow)], &done, MPI_STATUS_IGNORE);
    if (done == 0) return false;
    if (staged) {
      land(t, segment * kSegmentBytes, state.staging.data() + segment % kWindow * kSegmentBytes,
           length(segment));
    }
    ++state.ended;
  }
  return true;
}

bool MpiTransport::test(Transfer& t) {
  State& state = *static_cast<State*>(t.state);
  // A sender may send its segments before its frame is complete; the peer posts their receives once
  // it has the frame.
  const bool frame_done = test_frame(t, state);
  if (!t.is_send && !frame_done) return false;
  if (!test_segments(t, state) || !frame_done) return false;
  free_.push_back(&state);
  t.state = nullptr;
  return true;
}

// The job is over: unmatched transfers will never match, so nothing is waited for.
void MpiTransport::cancel(Transfer& t) {
  if (t.state == nullptr) return;
  State& state = *static_cast<State*>(t.state);
  t.state = nullptr;
  for (MPI_Request* request : {&state.frame_request, &state.requests[0], &state.requests[1],
                               &state.requests[2], &state.requests[3]}) {
    if (*request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(request);
    MPI_Request_free(request);
  }
}

}  // namespace trireme
