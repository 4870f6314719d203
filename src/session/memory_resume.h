#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/rebuild_plan.h"
#include "comm/world.h"
#include "session/session.h"
#include "train/engine.h"
#include "train/host_places.h"

namespace trireme {

// A checkpoint of the hosts' memory that this rank can open.
struct MemoryCheckpoint {
  std::string folder;       // for this start alone; the rank that keeps it removes it
  std::string name;         // as a user finds it on the host of the first rank
  bool is_rebuilt = false;  // from parity
};

// The checkpoints that this job keeps in the memory of its hosts, and how ranks that start resume
// from one. The ranks may lie on other hosts than those that have written it, and may be more or
// fewer. All ranks call all functions in the same order.
class MemoryResume {
 public:
  // Finds the checkpoints of every host. A job that has not trained yet has none.
  MemoryResume(World& world, const SessionOptions& options, Engine& engine);

  // The step of the newest checkpoint that was not tried yet; -1: there is none.
  int64_t newest_step() const;
  // Returns the same of the checkpoints of earlier steps than `step`.
  int64_t newest_step_before(int64_t step) const;
  // From now on, no checkpoint of a later step than `step` is taken.
  void leave_out_after(int64_t step);
  // Makes the newest checkpoint whole where it is needed: its bytes are read and checked by the
  // hosts that have them, lost shards are rebuilt from parity, and each host fetches what its ranks
  // read. If that is not possible, the reason is returned on all ranks.
  Result<MemoryCheckpoint> take_newest();
  // Removes the folder of take_newest().
  void remove_folder() const;

 private:
  // A part of a checkpoint on a current host. A host may also keep parts of hosts without ranks.
  struct HeldFolder {
    int host = 0;
    std::string folder;  // in its memory; used by this host alone
    int number = 0;      // of the part in the record
  };
  struct Save {
    HostsRecord record;
    std::vector<HeldFolder> held;  // those of a host in the order in which it has told them
  };
  // What the ranks must agree on before the next part begins.
  Status agree(const Status& own);
  std::vector<std::string> gather_from_hosts(const std::string& text);

  void take_records(const std::vector<std::string>& texts);
  Result<std::vector<HeldPart>> check_parts(const Save& save);
  Result<CheckpointIndex> share_index(const Save& save);
  Status make_folder(const Save& save, std::span<const HeldPart> parts,
                     const CheckpointIndex& index);
  RebuildPlan of_hosts(RebuildPlan plan, const Save& save, std::span<const HeldPart> parts) const;
  Status move(const CheckpointIndex& index, std::span<const PartMove> moves);
  Result<std::vector<NeededRanges>> gather_needs(const CheckpointIndex& index,
                                                 const RebuildPlan& plan);
  bool is_keeper() const { return world_.rank() == places_.keeper(); }
  void tell(const std::string& message) const;

  World& world_;
  const SessionOptions& options_;
  Engine& engine_;
  std::unique_ptr<Group> ranks_;
  HostPlaces places_;
  std::string folder_;       // of take_newest()
  std::vector<Save> saves_;  // the newest one last
};

}  // namespace trireme
