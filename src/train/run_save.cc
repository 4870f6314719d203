#include "train/run_save.h"

#include <utility>

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

SaveOptions RunSave::options(Progress& progress) const {
  return {.keep = 0,
          .progress = &progress,
          .is_abandoned = &is_abandoned_,
          .publish = [this](const auto& rename) { return publish(rename); }};
}

Status RunSave::publish(const std::function<Status()>& rename) const {
  ProgressPage& page = ranks_.page();
  page.reach(CrashPoint::DiskIndexed);
  TRIREME_TRY_DONE(request_.publish ? request_.publish(rename) : rename());
  page.reach(CrashPoint::DiskCommitted);
  return Done{};
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
  folder_ = folders->front();
  enter(Phase::Write, [this](Progress& progress) { return write(progress); });
}

void RunSave::enter(Phase phase, BackgroundJob::Function job) {
  phase_ = phase;
  if (mode_ == SaveMode::Beside) {
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
  result_ = texts->front();
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
