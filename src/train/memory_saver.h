#pragma once

#include <functional>
#include <memory>
#include <string>

#include "checkpoint/memory_shards.h"
#include "schema/parity_code.h"
#include "train/checkpoint_saver.h"
#include "train/host_places.h"
#include "train/parity_writer.h"

namespace trireme {

// Where the ranks of a job keep checkpoints in memory.
struct MemoryTier {
  MemoryPlace place;  // of this rank
  uint64_t job = 0;   // a number of the job; only that of the first rank is used
  uint64_t epoch = 1;
  ParityChoice parity;
  double timeout_s = 60.0;  // of the exchange of parity, without a byte from a peer
};

// Keeps the newest checkpoint of a run in the memory of its hosts, from which the job resumes if it
// loses ranks or hosts. All ranks call its functions in the same order, between two steps. The
// update of a step writes the state that only the optimizer reads to other memory, where the former
// state stays as a checkpoint, and copies the rest while it is in registers or caches
// (MemoryShards, Optimizer::bind_copies). What it cannot copy is copied while training waits.
// During the next step the hosts exchange parity of the checkpoint, and before the update of that
// step it is committed. Every host keeps the shards of its ranks and, if there are several hosts,
// parity of the others.
class MemorySaver {
 public:
  // `tell` gets a sentence if saving fails, or if a failure domain is too large for the parity;
  // only that of the first rank is called.
  MemorySaver(Engine& engine, const MemoryTier& tier, CheckpointSaver::MakeRequest request,
              std::function<void(const std::string&)> tell);
  ~MemorySaver();
  MemorySaver(const MemorySaver&) = delete;
  MemorySaver& operator=(const MemorySaver&) = delete;

  // Says whether the next step will be followed by start(). Then its update makes copies.
  void expect_start(bool is_expected) { is_expected_ = is_expected; }
  // Begins a checkpoint. The former one must be over.
  void start(const TrainPosition& position);
  // Commits the checkpoint that was begun before the last step, if the update of that step has not
  // done so. After a failure, no checkpoint is begun any more, and the former one stays.
  void finish();
  // Removes the newest checkpoint, because the run goes back to an older step and what follows it
  // may differ. All ranks call it before they restore that step.
  void remove_newest();

  int64_t saved() const { return saved_; }
  double stall_s() const { return static_cast<double>(stall_ns_) * 1e-9; }
  // Bytes that this rank has sent for the parity of other hosts.
  int64_t sent_bytes() const { return parity_ == nullptr ? 0 : parity_->sent_bytes(); }

 private:
  void take_places(const MemoryTier& tier);
  void hold_state(const MemoryTier& tier);
  void prepare_update();
  void fail(const std::string& why);

  Engine& engine_;
  std::unique_ptr<Group> ranks_;
  CheckpointSaver::MakeRequest request_;
  std::function<void(const std::string&)> tell_;
  HostPlaces places_;
  std::string memory_folder_;
  HostsRecord record_;                    // of the checkpoint that is written
  std::unique_ptr<MemoryShards> shards_;  // of this rank
  StateShard state_;
  std::span<std::byte> home_;  // where state lies that was moved to the shard; empty: nowhere
  std::unique_ptr<ParityWriter> parity_;  // absent: no host keeps parity
  std::unique_ptr<RunSave> save_;
  std::string newest_;  // the last checkpoint that was committed, on this host
  bool is_expected_ = false;
  bool has_failed_ = false;
  int64_t saved_ = 0;
  int64_t stall_ns_ = 0;
};

}  // namespace trireme
