#include "train/run_save.h"

#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/remove_folder.h"
#include "checkpoint/hosts_record.h"
#include "checkpoint/snapshot.h"
#include "comm/gather_text.h"
#include "train/run_state.h"

namespace trireme {
namespace {

// Prefix of a rank's result after its part of a save: a text, or an error with its kind, so that
// every rank fails with the same error and exit code.
constexpr char kDone = '.';
std::string message_of(const Result<std::string>& result) {
  if (result.ok()) return kDone + *result;
  return static_cast<char>('0' + int(result.error().kind)) + result.error().message;
}

// Exchanges the ranks' results and returns all texts, or the error of the first rank that failed.
// The result is the same on every rank.
Result<std::vector<std::string>> agree_on(Group& ranks, const Result<std::string>& own) {
  std::vector<std::string> texts = gather_text(ranks, message_of(own));
  for (std::string& text : texts) {
    const char kind = text[0];
    text.erase(0, 1);
    if (kind != kDone) return Error{ErrorKind(kind - '0'), std::move(text)};
  }
  return texts;
}

// Removes all other folders beside these two. Other ranks remove their shards from those folders at
// the same time (MemoryShards).
void keep_alone(const std::string& newest, const std::string& begun) {
  namespace fs = std::filesystem;
  std::error_code error, ignored;
  for (fs::directory_iterator it(fs::path(newest).parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    const bool is_older = it->is_directory(ignored) && it->path() != newest && it->path() != begun;
    if (is_older) remove_folder(it->path().string());
  }
}

}  // namespace

RunSave::RunSave(Engine& engine, Group& ranks, SaveRequest request, SaveMode mode)
    : engine_(engine),
      ranks_(ranks),
      request_(std::move(request)),
      mode_(mode),
      pieces_(mode == SaveMode::Memory ? std::vector<TensorPiece>() : checkpoint_pieces(engine)) {
  if (mode_ != SaveMode::Beside) copy_ = CopyState::Done;  // training stands still meanwhile
  if (mode_ == SaveMode::Wait) engine.verify_offload();
}

RunSave::~RunSave() {
  if (phase_ == Phase::Over) return;
  is_abandoned_ = true;
  job_.wait(ranks_.progress());
  if (is_keeper()) abandon_checkpoint(folder_);
}

SaveOptions RunSave::options(Progress& progress) const {
  return {.keep = 0,
          .progress = &progress,
          .is_abandoned = &is_abandoned_,
          .publish = [this](const auto& rename) { return publish(rename); }};
}

Status RunSave::publish(const std::function<Status()>& rename) const {
  const bool is_memory = mode_ == SaveMode::Memory;
  ProgressPage& page = ranks_.page();
  page.reach(is_memory ? CrashPoint::MemoryWritten : CrashPoint::DiskIndexed);
  TRIREME_TRY_DONE(request_.publish ? request_.publish(rename) : rename());
  page.reach(is_memory ? CrashPoint::MemoryCommitted : CrashPoint::DiskCommitted);
  return Done{};
}

void RunSave::begin() { mode_ == SaveMode::Memory ? begin_in_memory() : begin_in(request_.root); }

// The keeper makes the temporary folder at once: that is short, and every rank needs its path.
void RunSave::begin_in(const Result<std::string>& root) {
  Result<std::string> begun = std::string();
  if (is_keeper()) {
    begun = root.ok() ? begin_checkpoint(*root, step(), options(ranks_.progress()))
                      : Result<std::string>(root.error());
    if (begun.ok()) folder_ = *begun;
  }
  ranks_.monitored_barrier();
  const Result<std::vector<std::string>> folders = agree_on(ranks_, begun);
  if (!folders.ok()) return fail(folders.error());
  folder_ = (*folders)[size_t(keeper())];
  enter(Phase::Write, [this](Progress& progress) { return write(progress); });
}

// Whatever needs an exchange of the ranks is exchanged at once: the path of each host's folder, and
// the parts of the index.
void RunSave::begin_in_memory() {
  const MemoryPart& memory = *request_.memory;
  const Status copied = copy_to_memory();
  Result<std::string> folder = std::string();
  if (is_keeper() && copied.ok()) {
    folder = request_.root.ok()
                 ? begin_checkpoint(*request_.root, step(), options(ranks_.progress()))
                 : request_.root;
  }
  Result<std::string> own = folder;
  if (!copied.ok()) own = copied.error();
  if (own.ok()) own = *folder + "\n" + print_index_part(memory.state->index_part());
  ranks_.monitored_barrier();
  Result<std::vector<std::string>> texts = agree_on(ranks_, own);
  if (!texts.ok()) {
    if (is_keeper() && folder.ok()) abandon_checkpoint(*folder);
    return fail(texts.error());
  }
  for (size_t rank = 0; rank < texts->size(); ++rank) {
    std::string& text = (*texts)[rank];
    const size_t end = text.find('\n');
    if (int(rank) == keeper()) folder_ = text.substr(0, end);
    memory_parts_.push_back(text.substr(end + 1));
  }
  ranks_.page().reach(CrashPoint::MemoryBegun);
  enter(Phase::Write, [this](Progress& progress) { return write_in_memory(progress); });
}

void RunSave::enter(Phase phase, BackgroundJob::Function job) {
  phase_ = phase;
  const bool is_beside =
      mode_ == SaveMode::Beside || (mode_ == SaveMode::Memory && phase == Phase::Write);
  if (is_beside) {
    job_.start(std::move(job));
  } else {
    job_.run_here(job, ranks_.progress());
  }
}

// Tells the step that this save reads the tensors no more, also after a failure.
class RunSave::Reading {
 public:
  explicit Reading(RunSave& save) : save_(save) {}
  ~Reading() {
    const std::lock_guard lock(save_.mutex_);
    save_.copy_ = is_done_ ? CopyState::Done : CopyState::Failed;
    save_.copied_.notify_all();
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  void set_done() { is_done_ = true; }

 private:
  RunSave& save_;
  bool is_done_ = false;
};

void RunSave::copy() {
  {
    const std::lock_guard lock(mutex_);
    if (copy_ == CopyState::Done) return;
  }
  Reading reading(*this);
  pieces_ = copy_pieces(pieces_, engine_.snapshot_memory());
  reading.set_done();
}

// The waiting rank shows its call, so the watch of ranks ends the run after checkpoint.timeout_s.
void RunSave::wait_for_copy() {
  if (phase_ != Phase::Write) return;
  const auto is_copied = [this] { return copy_ != CopyState::Pending; };
  std::unique_lock lock(mutex_);
  if (is_copied()) return;
  const ShownCall shown(&ranks_.progress(), "waiting for the copy", "the checkpoint");
  copied_.wait(lock, is_copied);
}

// Exchanged by all ranks, because all must use the fallback or none.
bool RunSave::a_copy_failed() const {
  int64_t num_failed = 0;
  {
    const std::lock_guard lock(mutex_);
    if (copy_ == CopyState::Failed) num_failed = 1;
  }
  ranks_.all_reduce({&num_failed, DType::I64, Shape{1}});
  return num_failed > 0;
}

// All threads that train take part. One thread that copies beside them would delay the step longer.
Status RunSave::copy_to_memory() {
  const MemoryPart& memory = *request_.memory;
  if (memory.state->bytes() == 0) return Done{};
  TRIREME_TRY(shard, memory.shards->begin(memory.state->bytes()));
  memory.state->complete(shard, engine_.ctx().stream.team());
  return memory.shards->take();
}

// Exchanges parity, by which the hosts protect each other's shards, and writes the rest.
Result<std::string> RunSave::write_in_memory(Progress& progress) {
  const MemoryPart& memory = *request_.memory;
  Status named = Done{};
  if (memory.state->bytes() > 0) named = memory.shards->finish(folder_, memory.state->file());
  // The other ranks wait for this one, also if its shard has no name.
  if (memory.protect) {
    const Status is_protected = memory.protect(folder_, progress, is_abandoned_);
    if (named.ok()) named = is_protected;
  }
  if (!named.ok()) return named.error();
  return is_keeper() ? finish_in_memory(progress) : std::string();
}

Result<std::string> RunSave::finish_in_memory(Progress& progress) const {
  const MemoryPart& memory = *request_.memory;
  if (!memory.newest.empty()) keep_alone(memory.newest, folder_);
  std::vector<IndexPart> index;
  for (const std::string& text : memory_parts_) {
    TRIREME_TRY(part, parse_index_part(text));
    index.push_back(std::move(part));
  }
  SaveOptions how = options(progress);
  how.on_index = [&](const std::string& text) {
    return write_file_atomically(folder_ + "/" + kHostsFile, memory.record(text));
  };
  TRIREME_TRY_DONE(finish_checkpoint(folder_, request_.info, request_.attached, index, how));
  return std::string();
}

Result<std::string> RunSave::write(Progress& progress) {
  copy();
  ranks_.page().reach(CrashPoint::DiskBegun);
  if (mode_ == SaveMode::Beside) yield_cores_to_training();
  TRIREME_TRY(part, write_shards(folder_, ranks_.rank(), pieces_, options(progress)));
  ranks_.page().reach(CrashPoint::DiskWritten);
  return print_index_part(part);
}

Result<std::string> RunSave::commit(const std::vector<std::string>& parts,
                                    Progress& progress) const {
  if (!is_keeper()) return std::string();
  if (mode_ == SaveMode::Memory) return publish_checkpoint(folder_, step(), options(progress));
  if (mode_ == SaveMode::Beside) yield_cores_to_training();
  std::vector<IndexPart> index;
  for (const std::string& text : parts) {
    TRIREME_TRY(part, parse_index_part(text));
    index.push_back(std::move(part));
  }
  return commit_checkpoint(folder_, request_.info, request_.attached, index, options(progress));
}

void RunSave::advance() {
  if (is_over()) return;
  int64_t num_done = job_.is_done() ? 1 : 0;
  ranks_.all_reduce({&num_done, DType::I64, Shape{1}});
  if (num_done == ranks_.size()) next_phase();
}

void RunSave::finish() {
  while (!is_over()) {
    job_.wait(ranks_.progress());
    ranks_.monitored_barrier();  // each rank took as long as its disk needed
    next_phase();
  }
}

void RunSave::next_phase() {
  Result<std::vector<std::string>> texts = agree_on(ranks_, job_.take());
  if (phase_ == Phase::Abandon) return fail(Error(result_.error()));  // fail() sets result_
  if (!texts.ok()) {
    result_ = texts.error();
    return enter(Phase::Abandon, [this](Progress&) {
      if (is_keeper()) abandon_checkpoint(folder_);
      return Result<std::string>(std::string());
    });
  }
  if (phase_ == Phase::Write) {
    return enter(Phase::Commit, [this, parts = std::move(*texts)](Progress& progress) {
      return commit(parts, progress);
    });
  }
  result_ = (*texts)[size_t(keeper())];
  phase_ = Phase::Over;
}

// The temporary folder is already removed. The copies are written to the fallback if there is one
// and every rank has its copy: without a copy, a job would write tensors that a step changes.
void RunSave::fail(const Error& error) {
  result_ = error;
  phase_ = Phase::Over;
  if (request_.fallback_root.empty() || is_on_fallback_ || a_copy_failed()) return;
  is_on_fallback_ = true;
  failure_of_root_ = error.message;
  begin_in(request_.fallback_root);
}

}  // namespace trireme
