#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "coord/simulated_time_fixture.h"
#include "raft/log_format.h"
#include "raft/raft_core.h"

namespace trireme {

// The folder of one server, as the bytes that LogFile writes. A write that is under way at a crash
// is lost, reaches the disk in part or reaches it wholly.
class SimulatedDisk {
 public:
  void begin(const RaftWrite& write) { write_ = write; }
  // What is under way is on the disk now.
  void finish() {
    if (!write_) return;
    if (write_->snapshot != nullptr) {
      store_snapshot();
      start_segment();
    } else {
      segment_ += frame_of(write_->vote, write_->entries);
    }
    write_.reset();
  }
  void crash(SimulatedTime& time) {
    if (!write_) return;
    const uint64_t fate = time.below(3);
    if (fate == 0) {
      finish();
    } else if (fate == 1 && write_->snapshot != nullptr) {
      store_snapshot();  // its segment was not started
    } else if (fate == 1) {
      const std::string frame = frame_of(write_->vote, write_->entries);
      segment_ += frame.substr(0, time.below(frame.size()));
    }
    write_.reset();
  }
  Result<LogContents> read() {
    LogSnapshot snapshot;
    if (!snapshot_.empty()) {
      TRIREME_TRY(parsed, parse_snapshot(snapshot_, "snapshot"));
      snapshot = std::move(parsed);
    }
    TRIREME_TRY(segment, parse_segment(segment_, number_, "log"));
    segment_.resize(size_t(segment.whole_bytes));
    const bool is_joined = segment.base_index == snapshot.index;
    TRIREME_TRY(contents, join_contents(std::move(snapshot), std::move(segment), "log"));
    if (!is_joined) {
      const auto& [base, vote, entries] = contents;
      segment_ = segment_head(++number_, base.index, base.term) + frame_of(vote, entries);
    }
    return std::move(contents);
  }

 private:
  void store_snapshot() { snapshot_ = encode_snapshot(*write_->snapshot); }
  void start_segment() {
    segment_ = segment_head(++number_, write_->snapshot->index, write_->snapshot->term) +
               frame_of(write_->vote, write_->entries);
  }

  int64_t number_ = 1;
  std::string segment_ = segment_head(1, 0, 0);
  std::string snapshot_;
  std::optional<RaftWrite> write_;  // under way
};

}  // namespace trireme
