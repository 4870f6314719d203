#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "raft/command_log.h"
#include "raft/state_machine.h"
#include "store/disk_file.h"

namespace trireme {

// A log of commands that lies in several folders of one host, so that it survives the loss of some
// of them. A command counts once `least_written` folders have it on disk. Any `least_read` folders
// are enough to open the log: one of them has every command that counts, because
//
//     least_written + least_read > number of folders.
//
// Of what the folders have, the log with the greatest (term, index) of its last entry is taken, and
// the others are made equal to it. Every opening that writes has a term of its own, which it first
// promises in `least_written` folders, so two openings never write entries of the same term. At
// most one process writes at a time; the caller sees to that.
class MirroredLog : public CommandLog {
 public:
  struct Rules {
    int least_written = 1;
    int least_read = 1;
  };
  // A folder "" is lost. Reads the log, brings `machine` to its state and changes nothing on the
  // disks. The machine must outlive the log.
  static Result<std::unique_ptr<MirroredLog>> open(std::vector<std::string> folders, Rules rules,
                                                   StateMachine& machine, DiskFaults* faults);
  // Begins an empty log in all folders.
  static Status create(const std::vector<std::string>& folders, DiskFaults* faults);

  // No longer uses the copy in this folder, which is an index into the folders that open() got.
  void leave_out(size_t folder);

  Result<AppliedAnswer> apply(const std::string& command, Deadline deadline) override;
  Result<AppliedAnswer> query(const std::string& question, Deadline deadline) override;

 private:
  struct Copy {
    std::string folder;
    bool is_readable = false;
    std::string bytes;  // the part of the file that is intact
    std::string why = {};
    std::optional<DiskFile> file = {};  // open for appending
    uint64_t promised = 0;
  };
  struct Entry;

  MirroredLog(Rules rules, StateMachine& machine, DiskFaults* faults)
      : rules_(rules), machine_(machine), faults_(faults) {}
  static void read_copy(Copy& copy, std::vector<Entry>& entries);
  Status choose(std::vector<std::vector<Entry>> entries);
  // Promises a new term and makes all folders equal.
  Status begin_writing();
  Status append(const std::string& record);

  const Rules rules_;
  StateMachine& machine_;
  DiskFaults* const faults_;
  std::mutex mutex_;  // guards everything below
  std::vector<Copy> copies_;
  std::string image_;  // the log that was chosen; empty once it is written on
  uint64_t term_ = 0;
  uint64_t index_ = 0;
  int64_t snapshot_bytes_ = 0;
  bool is_writing_ = false;
  std::optional<Error> broken_;  // a write reached too few folders: nobody knows whether it counts
};

}  // namespace trireme
