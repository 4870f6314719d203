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
      pieces_(checkpoint_pieces(engine)) {
  if (mode_ != SaveMode::Beside) copy_ = CopyState::Done;  // training stands still meanwhile
  if (mode_ == SaveMode::Wait) engine.verify_offload();
}

RunSave::~RunSave() {
  if (phase_ == Phase::Over) return;
  is_abandoned_ = true;
  job_.wait(ranks_.progress());
  if (is_keeper()) abandon_checkpoint(folder_);
}

// In memory, a rank has one shard: the block that parity protects.
SaveOptions RunSave::options(Progress& progress) const {
  SaveOptions options{.keep = 0,
                      .progress = &progress,
                      .is_abandoned = &is_abandoned_,
                      .publish = request_.publish};
  if (mode_ == SaveMode::Memory) {
    options.max_shard_bytes = INT64_MAX;
    options.in_memory = request_.memory->shards;
    options.team = &engine_.ctx().stream.team();
  }
  return options;
}

void RunSave::begin() { begin_in(request_.root); }

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
  if (mode_ == SaveMode::Memory) in_memory_ = copy_to_memory();
  enter(Phase::Write, [this](Progress& progress) { return write(progress); });
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

// All threads that train take part in the copy. One thread that copies beside them would delay the
// step longer.
Result<IndexPart> RunSave::copy_to_memory() {
  const MemoryPart& memory = *request_.memory;
  if (is_keeper() && !memory.newest.empty()) keep_alone(memory.newest, folder_);
  return write_shards(folder_, ranks_.rank(), pieces_, options(ranks_.progress()));
}

// Exchanges parity, by which the hosts protect each other's shards.
Result<std::string> RunSave::protect_in_memory(Progress& progress) {
  const MemoryPart& memory = *request_.memory;
  Status is_protected = Done{};
  if (memory.protect) is_protected = memory.protect(folder_, progress, is_abandoned_);
  if (!in_memory_.ok()) return in_memory_.error();
  if (!is_protected.ok()) return is_protected.error();
  return print_index_part(*in_memory_);
}

Result<std::string> RunSave::write(Progress& progress) {
  if (mode_ == SaveMode::Memory) return protect_in_memory(progress);
  copy();
  if (mode_ == SaveMode::Beside) yield_cores_to_training();
  TRIREME_TRY(part, write_shards(folder_, ranks_.rank(), pieces_, options(progress)));
  return print_index_part(part);
}

Result<std::string> RunSave::commit(const std::vector<std::string>& parts,
                                    Progress& progress) const {
  if (!is_keeper()) return std::string();
  if (mode_ == SaveMode::Beside) yield_cores_to_training();
  std::vector<IndexPart> index;
  for (const std::string& text : parts) {
    TRIREME_TRY(part, parse_index_part(text));
    index.push_back(std::move(part));
  }
  SaveOptions how = options(progress);
  if (request_.memory) {
    how.on_index = [this](const std::string& text) {
      return write_file_atomically(folder_ + "/" + kHostsFile, request_.memory->record(text));
    };
  }
  return commit_checkpoint(folder_, request_.info, request_.attached, index, how);
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
