#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "raft/command_log.h"
#include "raft/state_machine.h"
#include "store/disk_file.h"
#include "store/work_queue.h"

namespace trireme {

// A log of commands that lies in several folders of one host, so that it survives the loss of some
// of them. A command counts once `least_written` folders have it on disk. Any `least_read` folders
// are enough to open the log: one of them has every command that counts, because
//
//     least_written + least_read > number of folders.
//
// An opening takes the log whose last entry has the greatest (term, index) in all folders, and
// makes the others equal to it. Every opening that writes has a term of its own, which it first
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

  // Reads the copies again, and returns what is wrong with each, or "": it is damaged, missing, or
  // lacks commands. A copy that another process may be writing is read again for half a second.
  std::vector<std::string> problems();
  // Makes all copies equal, and returns how many of them were wrong since the log was opened.
  Result<int64_t> mend();

  Result<AppliedAnswer> apply(const std::string& command, Deadline deadline) override;
  Result<AppliedAnswer> query(const std::string& question, Deadline deadline) override;

 private:
  // Of an entry: its term and its index.
  using Place = std::pair<uint64_t, uint64_t>;
  struct Copy {
    std::string folder;
    bool is_readable = false;
    std::string bytes;  // the part of the file that is intact
    std::string why = {};
    std::optional<DiskFile> file = {};  // open for appending
    uint64_t promised = 0;
    Place last = {};  // of its last entry
  };
  struct Entry;

  MirroredLog(Rules rules, StateMachine& machine, DiskFaults* faults)
      : rules_(rules), machine_(machine), faults_(faults) {}
  static void read_copy(Copy& copy, std::vector<Entry>& entries);
  // Reads the copy in a folder without its entries.
  static Copy read_again(const std::string& folder);
  Status choose(std::vector<std::vector<Entry>> entries);
  // Does the same to all copies whose folder is in use, side by side, because each waits for its
  // disk. Returns the outcome for every folder.
  std::vector<Status> on_all_disks(const std::function<Status(Copy&)>& work);
  // Promises a new term and makes all folders equal.
  Status begin_writing();
  Status append(const std::string& record);
  // The record of the state after the last entry.
  std::string snapshot_record() const;
  std::string problem_of(const Copy& copy, uint64_t promised) const;
  std::vector<std::string> problems_once() const;
  std::vector<std::string> problems_now(double patience_s) const;
  Status rewrite(Copy& copy, const std::string& image) const;

  const Rules rules_;
  StateMachine& machine_;
  DiskFaults* const faults_;
  std::mutex mutex_;  // guards everything below
  std::vector<Copy> copies_;
  std::string image_;  // the log that was chosen; empty once it is written on
  uint64_t term_ = 0;
  uint64_t index_ = 0;
  uint64_t last_term_ = 0;  // of the last entry
  int64_t num_mended_ = 0;  // copies that were wrong and are not any more
  int64_t snapshot_bytes_ = 0;
  bool is_writing_ = false;
  std::unique_ptr<WorkQueue> disks_;  // a thread for each, once the log is written
  std::optional<Error> broken_;  // a write reached too few folders: nobody knows whether it counts
};

}  // namespace trireme
