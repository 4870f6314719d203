#include "store/mirrored_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <latch>
#include <tuple>

#include "base/file.h"
#include "base/hash.h"

namespace trireme {
namespace {

constexpr uint64_t kRecordMagic = 0x31474f4c52495254;  // "TRIRLOG1"
constexpr const char* kLogFile = "/metadata.log";
constexpr const char* kTermFile = "/metadata.term";
// A log that is longer than this plus four times its snapshot is replaced by a snapshot.
constexpr int64_t kLongLogBytes = int64_t{16} << 20;

enum class RecordKind : uint64_t { Snapshot, Command };

struct RecordHead {
  uint64_t magic = kRecordMagic;
  RecordKind kind = RecordKind::Command;
  uint64_t term = 0;
  uint64_t index = 0;
  uint64_t bytes = 0;
  uint64_t body_checksum = 0;
  uint64_t head_checksum = 0;  // of everything above
};

uint64_t checksum_of_head(const RecordHead& head) {
  return hash64(std::as_bytes(std::span(&head, 1)).first(offsetof(RecordHead, head_checksum)));
}

std::string record_of(RecordKind kind, uint64_t term, uint64_t index, std::string_view body) {
  RecordHead head{.kind = kind, .term = term, .index = index, .bytes = body.size()};
  head.body_checksum = hash64(body);
  head.head_checksum = checksum_of_head(head);
  std::string record(reinterpret_cast<const char*>(&head), sizeof(head));
  record.append(body);
  return record;
}

// Returns the head of the record at the beginning of the bytes, or nullopt if it is not whole.
std::optional<RecordHead> head_of(std::string_view bytes) {
  RecordHead head;
  if (bytes.size() < sizeof(head)) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof(head));
  const bool is_head = head.magic == kRecordMagic && head.head_checksum == checksum_of_head(head);
  if (!is_head || head.bytes > bytes.size() - sizeof(head)) return std::nullopt;
  if (hash64(bytes.substr(sizeof(head), head.bytes)) != head.body_checksum) return std::nullopt;
  return head;
}

// True if a whole record lies behind the first byte. If no record begins there, the bytes before it
// are then damaged, and not the end of a write that was cut off.
bool has_record_behind(std::string_view bytes) {
  const std::string_view magic(reinterpret_cast<const char*>(&kRecordMagic), sizeof(kRecordMagic));
  for (size_t at = bytes.find(magic, 1); at != std::string_view::npos;
       at = bytes.find(magic, at + 1)) {
    if (head_of(bytes.substr(at))) return true;
  }
  return false;
}

uint64_t promised_term(const std::string& folder) {
  const Result<std::string> text = read_text_file(folder + kTermFile, 64);
  uint64_t term = 0;
  if (text.ok()) std::from_chars(text->data(), text->data() + text->size(), term);
  return term;
}

}  // namespace

struct MirroredLog::Entry {
  RecordKind kind = RecordKind::Command;
  uint64_t term = 0;
  uint64_t index = 0;
  std::string body;
};

Status MirroredLog::create(const std::vector<std::string>& folders, DiskFaults* faults) {
  for (const std::string& folder : folders) {
    TRIREME_TRY_DONE(
        replace_file(folder + kLogFile, record_of(RecordKind::Command, 0, 1, {}), faults));
  }
  return Done{};
}

void MirroredLog::read_copy(Copy& copy, std::vector<Entry>& entries) {
  if (copy.folder.empty()) return;
  Result<std::string> text = read_text_file(copy.folder + kLogFile);
  if (!text.ok()) {
    copy.why = text.error().message;
    return;
  }
  size_t at = 0;
  while (const std::optional<RecordHead> head = head_of(std::string_view(*text).substr(at))) {
    const size_t body = at + sizeof(RecordHead);
    const bool follows = entries.empty() ? head->kind == RecordKind::Snapshot || head->index == 1
                                         : head->index == entries.back().index + 1 &&
                                               head->term >= entries.back().term;
    if (!follows) break;
    entries.push_back({head->kind, head->term, head->index, text->substr(body, head->bytes)});
    at = body + head->bytes;
  }
  if (entries.empty() || has_record_behind(std::string_view(*text).substr(at))) {
    copy.why = copy.folder + kLogFile + ": is damaged";
    entries.clear();
    return;
  }
  copy.is_readable = true;
  copy.bytes = text->substr(0, at);
  copy.promised = promised_term(copy.folder);
  copy.last = {entries.back().term, entries.back().index};
}

MirroredLog::Copy MirroredLog::read_again(const std::string& folder) {
  Copy copy{.folder = folder};
  std::vector<Entry> entries;
  read_copy(copy, entries);
  return copy;
}

std::string MirroredLog::snapshot_record() const {
  return record_of(RecordKind::Snapshot, last_term_, index_, machine_.snapshot());
}

Status MirroredLog::rewrite(Copy& copy, const std::string& image) const {
  const std::string path = copy.folder + kLogFile;
  copy.file.reset();
  TRIREME_TRY_DONE(replace_file(copy.folder + kTermFile, std::to_string(term_), faults_));
  TRIREME_TRY_DONE(replace_file(path, image, faults_));
  TRIREME_TRY(file, DiskFile::open_at(path, int64_t(image.size()), faults_));
  copy.file.emplace(std::move(file));
  return Done{};
}

Result<std::unique_ptr<MirroredLog>> MirroredLog::open(std::vector<std::string> folders,
                                                       Rules rules, StateMachine& machine,
                                                       DiskFaults* faults) {
  std::unique_ptr<MirroredLog> log(new MirroredLog(rules, machine, faults));
  std::vector<std::vector<Entry>> entries(folders.size());
  for (size_t copy = 0; copy < folders.size(); ++copy) {
    log->copies_.push_back({.folder = folders[copy]});
    read_copy(log->copies_.back(), entries[copy]);
  }
  TRIREME_TRY_DONE(log->choose(std::move(entries)));
  return log;
}

Status MirroredLog::choose(std::vector<std::vector<Entry>> entries) {
  std::string lost;
  int num_readable = 0;
  size_t best = 0;
  for (size_t copy = 0; copy < copies_.size(); ++copy) {
    num_readable += copies_[copy].is_readable ? 1 : 0;
    if (copies_[copy].last > copies_[best].last) best = copy;
    if (!copies_[copy].why.empty()) lost += "; " + copies_[copy].why;
  }
  if (num_readable < rules_.least_read) {
    return damaged(fmt::format("{} of {} copies of the metadata can be read, and {} are needed{}",
                               num_readable, copies_.size(), rules_.least_read, lost));
  }
  for (const Entry& entry : entries[best]) {
    if (entry.kind == RecordKind::Snapshot) {
      TRIREME_TRY_DONE(machine_.restore(entry.body));
      snapshot_bytes_ = int64_t(entry.body.size());
    } else if (!entry.body.empty()) {
      machine_.apply(entry.body);
    }
  }
  image_ = copies_[best].bytes;
  std::tie(last_term_, index_) = copies_[best].last;
  term_ = last_term_;
  return Done{};
}

void MirroredLog::leave_out(size_t folder) {
  const std::lock_guard lock(mutex_);
  copies_[folder].folder.clear();
}

std::vector<Status> MirroredLog::on_all_disks(const std::function<Status(Copy&)>& work) {
  if (disks_ == nullptr) disks_ = std::make_unique<WorkQueue>(int(copies_.size()));
  std::vector<Status> done(copies_.size(), Done{});
  std::latch open(ptrdiff_t(copies_.size()));
  for (size_t folder = 0; folder < copies_.size(); ++folder) {
    disks_->add([&, folder] {
      if (!copies_[folder].folder.empty()) done[folder] = work(copies_[folder]);
      open.count_down();
    });
  }
  open.wait();
  return done;
}

Status MirroredLog::begin_writing() {
  const Place newest{last_term_, index_};
  uint64_t promised = term_;
  for (const Copy& copy : copies_) promised = std::max(promised, copy.promised);
  term_ = promised + 1;
  int num_promised = 0;
  std::vector<Status> done = on_all_disks([this](Copy& copy) {
    return replace_file(copy.folder + kTermFile, std::to_string(term_), faults_);
  });
  for (size_t folder = 0; folder < copies_.size(); ++folder) {
    Copy& copy = copies_[folder];
    if (copy.folder.empty()) continue;
    if (done[folder].ok()) {
      ++num_promised;
    } else {
      copy.why = done[folder].error().message;
      copy.folder.clear();
    }
  }
  if (num_promised < rules_.least_written) {
    return Error{ErrorKind::Runtime,
                 fmt::format("the metadata can be written to {} folders, and {} are needed",
                             num_promised, rules_.least_written)};
  }
  if (int64_t(image_.size()) > 4 * snapshot_bytes_ + kLongLogBytes) {
    last_term_ = term_;
    image_ = snapshot_record();
  }
  on_all_disks([this](Copy& copy) -> Status {
    const std::string path = copy.folder + kLogFile;
    if (!copy.is_readable || copy.bytes != image_) {
      TRIREME_TRY_DONE(replace_file(path, image_, faults_));
    }
    TRIREME_TRY(file, DiskFile::open_at(path, int64_t(image_.size()), faults_));
    copy.file.emplace(std::move(file));
    return Done{};
  });
  for (Copy& copy : copies_) {
    const bool was_wrong = copy.last < newest || copy.promised < promised;
    num_mended_ += was_wrong && copy.file ? 1 : 0;
    copy.bytes.clear();
  }
  image_.clear();
  is_writing_ = true;
  return Done{};
}

Status MirroredLog::append(const std::string& record) {
  int num_written = 0;
  std::string why;
  std::vector<Status> done = on_all_disks([&](Copy& copy) -> Status {
    if (!copy.file) return Done{};
    TRIREME_TRY_DONE(copy.file->write(record));
    return copy.file->sync();
  });
  for (size_t folder = 0; folder < copies_.size(); ++folder) {
    Copy& copy = copies_[folder];
    num_written += copy.file && done[folder].ok() ? 1 : 0;
    if (done[folder].ok()) continue;
    why += "; " + done[folder].error().message;
    copy.file.reset();  // its end is unknown, so it is made equal when the log is opened again
  }
  if (num_written >= rules_.least_written) return Done{};
  return Error{ErrorKind::Runtime,
               fmt::format("the metadata were written to {} folders, and {} are needed{}",
                           num_written, rules_.least_written, why)};
}

Result<AppliedAnswer> MirroredLog::apply(const std::string& command, Deadline) {
  const std::lock_guard lock(mutex_);
  if (broken_) return *broken_;
  Status status = is_writing_ ? Status(Done{}) : begin_writing();
  if (status.ok()) status = append(record_of(RecordKind::Command, term_, index_ + 1, command));
  if (!status.ok()) {
    broken_ = status.error();
    return *broken_;
  }
  ++index_;
  last_term_ = term_;
  return AppliedAnswer{.bytes = machine_.apply(command)};
}

Result<AppliedAnswer> MirroredLog::query(const std::string& question, Deadline) {
  const std::lock_guard lock(mutex_);
  return AppliedAnswer{.bytes = machine_.query(question)};
}

}  // namespace trireme
