#include "agent/rank_processes.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <optional>

#include "agent/gathering.h"
#include "agent/job_status.h"
#include "agent/process_stat.h"
#include "agent/rank_exit_code.h"
#include "agent/rank_process.h"
#include "agent/taken_signals.h"
#include "base/clock.h"
#include "comm/fabric.h"

namespace trireme {
namespace {

using State = RankProcess::State;

constexpr double kEndGraceS = 15.0;   // for the other ranks after one has failed
constexpr double kStartGraceS = 0.5;  // before the ranks have met, they cannot end by themselves
constexpr double kHangGraceS = 1.5;   // after a deadline, for every rank to notice it
constexpr int kLookMs = 50;
constexpr int64_t kReportNs = 1'000'000'000;  // between two reports of the status
constexpr size_t kMostReported = 10;          // failures

// Owns the processes of the ranks.
class Agent {
 public:
  Agent(const RankProcesses& processes, Rendezvous rendezvous, std::string secret,
        SharedJobPage page)
      : processes_(processes),
        rendezvous_(std::move(rendezvous)),
        page_(std::move(page)),
        ranks_(size_t(processes.ranks)),
        policy_(processes.max_restarts),
        place_{.rendezvous = rendezvous_.address(),
               .secret = std::move(secret),
               .size = processes.ranks},
        dp_(processes.dp) {}
  ~Agent();

  Result<RanksEnd> run();

 private:
  enum class Phase { Running, Settling, Ending };

  Status start(int rank);
  void gather();
  void wait_for_events();
  void take_signals();
  void pass_signals();
  void reap();
  void note_end(int rank);
  void take_reports();
  void look();
  void begin_settling();
  bool have_settled();
  void decide();
  void begin_ending(double grace_s);
  Status begin_epoch();
  bool lay_out_anew();
  EpochOrder order_of(int rank) const;
  void add_failures(EpochOrder& order) const;
  void signal_all(int signal) const;
  bool all_have_ended() const;
  JobFailure failure() const;
  void report(bool at_once);
  void say(const std::string& text) const {
    if (processes_.log) processes_.log(text);
  }

  const RankProcesses& processes_;
  TakenSignals signals_;
  Rendezvous rendezvous_;
  SharedJobPage page_;
  std::vector<RankProcess> ranks_;
  RestartPolicy policy_;
  TcpPlace place_;
  int dp_;
  Phase phase_ = Phase::Running;
  std::optional<Gathering> gathering_;
  std::optional<Deadline> grace_;
  bool must_start_settle_ = false;  // ranks that are still starting must report, too
  int first_failed_ = -1;           // of this epoch
  int last_signal_ = 0;
  bool was_asked_to_stop_ = false;  // before the failure
  int num_signals_ = 0;             // that ask the ranks to stop
  EpochOrder times_;
  std::optional<Error> not_met_;  // the ranks of the first epoch have never met
  int64_t reported_ns_ = 0;
  RanksEnd end_;
};

const char* name_of(State state) {
  switch (state) {
    case State::Starting:
      return "starting";
    case State::Joined:
      return "training";
    case State::Waiting:
      return "waiting";
    case State::Ended:
      break;
  }
  return "ended";
}

Agent::~Agent() {
  signal_all(SIGKILL);
  for (RankProcess& rank : ranks_) kill_rank(rank);
}

Status Agent::start(int rank) {
  place_.rank = rank;
  return start_rank(ranks_[size_t(rank)], {.command = processes_.command,
                                           .place = place_,
                                           .page = page_.fd(),
                                           .mask = signals_.before()});
}

void Agent::gather() {
  gathering_.emplace(rendezvous_, place_.epoch, place_.size, processes_.start_timeout_s);
}

void Agent::signal_all(int signal) const {
  for (const RankProcess& rank : ranks_) {
    if (rank.pid > 0) kill(rank.pid, signal);
  }
}

bool Agent::all_have_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.pid < 0; });
}

void Agent::wait_for_events() {
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
  for (const RankProcess& rank : ranks_) {
    if (rank.socket >= 0) entries.push_back({rank.socket, POLLIN, 0});
  }
  ::poll(entries.data(), entries.size(), kLookMs);
}

void Agent::take_signals() {
  while (const int signal = signals_.next()) {
    if (signal == SIGCHLD) continue;
    last_signal_ = signal;
    ++num_signals_;
  }
  pass_signals();
}

// In a later epoch, a signal would end a starting rank before it can save. It gets the first signal
// once it has joined. The second signal is passed on at once, because it ends the run without
// saving.
void Agent::pass_signals() {
  for (RankProcess& rank : ranks_) {
    const bool must_defer = rank.state == State::Starting && place_.epoch > 1 && num_signals_ == 1;
    if (rank.pid < 0 || must_defer) continue;
    for (; rank.signals < num_signals_; ++rank.signals) kill(rank.pid, last_signal_);
  }
}

void Agent::reap() {
  for (int rank = 0; rank < int(ranks_.size()); ++rank) {
    RankProcess& process = ranks_[size_t(rank)];
    if (process.pid < 0 || waitpid(process.pid, &process.status, WNOHANG) != process.pid) continue;
    while (const auto report = next_report(process)) process.cause = report->text;
    process.pid = -1;
    process.state = State::Ended;
    note_end(rank);
  }
}

// The first rank that fails decides how the run has ended; a rank that has saved after a signal has
// not failed.
void Agent::note_end(int rank) {
  const RankProcess& process = ranks_[size_t(rank)];
  const int code = process.exit_code();
  if (code == kStoppedExitCode && end_.exit_code == 0) end_.exit_code = kStoppedExitCode;
  if (!process.has_failed() || first_failed_ >= 0) return;
  first_failed_ = rank;
  end_.exit_code = code;
  end_.first_failed = rank;
  const int signal = WIFSIGNALED(process.status) ? WTERMSIG(process.status) : 0;
  end_.why = process.hangs ? "did not answer and was killed"
             : signal != 0 ? fmt::format("was killed by signal {} ({})", signal, strsignal(signal))
                           : fmt::format("ended with exit code {}", code);
  end_.error_output = error_output_of(process);
}

void Agent::take_reports() {
  for (RankProcess& rank : ranks_) {
    while (const auto report = next_report(rank)) {
      if (report->kind == RankReport::Kind::Failed) rank.cause = report->text;
      if (report->epoch != place_.epoch) continue;
      if (report->kind == RankReport::Kind::Joined) rank.state = State::Joined;
      if (report->kind == RankReport::Kind::Waiting) rank.state = State::Waiting;
    }
  }
}

void Agent::begin_settling() {
  phase_ = Phase::Settling;
  was_asked_to_stop_ = num_signals_ > 0;
  times_ = {
      .lost_step = page_->step, .lost_step_ns = page_->step_ns, .detected_ns = steady_now_ns()};
  const bool has_met = gathering_->has_met();
  must_start_settle_ = gathering_->has_failed();
  if (place_.epoch == 1 && gathering_->has_failed() && first_failed_ < 0) {
    not_met_ = gathering_->error();
  }
  const bool is_death = first_failed_ >= 0;
  const double usual_s = is_death ? kEndGraceS : kHangGraceS;
  const bool goes_on = processes_.max_restarts > 0 && place_.epoch > 1;
  grace_ = Deadline::after(has_met || goes_on ? usual_s : kStartGraceS);
}

// True once every rank has ended or waits for the next epoch. Ranks that do not answer are killed.
bool Agent::have_settled() {
  bool settled = true;
  for (RankProcess& rank : ranks_) {
    const bool is_awaited =
        rank.state == State::Joined || (rank.state == State::Starting && must_start_settle_);
    const bool is_still = rank.pid > 0 && !rank.hangs && is_stopped(rank);
    if (rank.pid > 0 && !rank.hangs && (is_still || (is_awaited && grace_->left_ms() == 0))) {
      rank.hangs = true;
      kill(rank.pid, SIGKILL);
    }
    settled = settled && !is_awaited && !(rank.hangs && rank.pid > 0);
  }
  return settled;
}

JobFailure Agent::failure() const {
  JobFailure failure{.rank = first_failed_,
                     .epoch = place_.epoch,
                     .step = times_.lost_step,
                     .furthest_step = page_->furthest_step,
                     .detected_ns = times_.detected_ns,
                     .kind = "lost",
                     .what = "no rank has died, but ranks waited for each other in vain",
                     .time_s = unix_time_s()};
  if (times_.lost_step_ns > 0) {
    failure.detected_after_s = double(times_.detected_ns - times_.lost_step_ns) * 1e-9;
  }
  if (first_failed_ < 0) return failure;
  const RankProcess& rank = ranks_[size_t(first_failed_)];
  const int signal = WIFSIGNALED(rank.status) ? WTERMSIG(rank.status) : 0;
  const bool is_killed = signal == SIGKILL || signal == SIGTERM || signal == SIGINT;
  failure.kind = rank.hangs ? "hang" : is_killed ? "killed" : signal != 0 ? "crashed" : "failed";
  failure.what = end_.why;
  failure.exit_code = rank.exit_code();
  if (signal == 0) failure.cause = rank.cause;
  return failure;
}

void Agent::begin_ending(double grace_s) {
  phase_ = Phase::Ending;
  grace_ = Deadline::after(grace_s);
  for (RankProcess& rank : ranks_) {
    if (rank.socket >= 0) ::close(std::exchange(rank.socket, -1));
  }
}

// Every rank has ended or waits: begins the next epoch, or ends the run.
void Agent::decide() {
  times_.classified_ns = steady_now_ns();
  const JobFailure found = failure();
  std::string why_end = policy_.why_end(found);
  if (why_end.empty() && was_asked_to_stop_) why_end = "the run was asked to stop";
  if (why_end.empty()) {
    if (const Status begun = begin_epoch(); begun.ok()) return;
    why_end = "no process can be started for it";
  }
  end_.why_no_restart = why_end;
  if (end_.exit_code == 0 || end_.exit_code == kStoppedExitCode) end_.exit_code = kFailedExitCode;
  begin_ending(kEndGraceS);
}

// Gives the survivors the first places of a smaller layout, without the lost ranks.
bool Agent::lay_out_anew() {
  std::erase_if(ranks_, [](RankProcess& rank) {
    const bool is_gone = rank.pid < 0;
    if (is_gone) close_descriptors(rank);
    return is_gone;
  });
  const auto [dp, size] = processes_.shrink(int(ranks_.size()));
  if (dp == 0) return false;
  for (size_t extra = size_t(size); extra < ranks_.size(); ++extra) kill_rank(ranks_[extra]);
  ranks_.resize(size_t(size));
  dp_ = dp;
  place_.size = size;
  return true;
}

void Agent::add_failures(EpochOrder& order) const {
  const std::vector<JobFailure>& failures = policy_.failures();
  order.num_failures = int(failures.size());
  order.first_failure_number = int(page_->told_failures) + 1;
  std::string lines;
  for (int number = order.first_failure_number; number <= order.num_failures; ++number) {
    lines += failure_line(failures[size_t(number - 1)], number, processes_.host);
  }
  // If not all failures fit, the last ones are kept.
  while (lines.size() >= sizeof order.failures) lines.erase(0, lines.find('\n') + 1);
  std::memcpy(order.failures, lines.data(), lines.size());
}

EpochOrder Agent::order_of(int rank) const {
  EpochOrder order = times_;
  order.epoch = place_.epoch;
  order.rank = rank;
  order.size = place_.size;
  order.dp = dp_;
  order.made_ns = steady_now_ns();
  if (rank == 0) add_failures(order);
  return order;
}

Status Agent::begin_epoch() {
  gathering_.reset();
  const int lost = int(std::count_if(ranks_.begin(), ranks_.end(),
                                     [](const RankProcess& rank) { return rank.pid < 0; }));
  if (processes_.shrink && lost > 0 && !lay_out_anew()) {
    return Error{ErrorKind::Runtime, "no layout is left"};
  }
  ++place_.epoch;
  for (int rank = 0; rank < int(ranks_.size()); ++rank) {
    RankProcess& process = ranks_[size_t(rank)];
    if (process.pid < 0) TRIREME_TRY_DONE(start(rank));
    process.state = State::Starting;
    process.cause.clear();
    send_order(process, order_of(rank));
  }
  gather();
  const std::string who = first_failed_ < 0 ? "ranks waited in vain"
                                            : fmt::format("rank {} {}", first_failed_, end_.why);
  say(fmt::format("{} after step {}; epoch {} resumes with {} ranks, {} of them new", who,
                  times_.lost_step, place_.epoch, place_.size, processes_.shrink ? 0 : lost));
  end_ = {};
  first_failed_ = -1;
  phase_ = Phase::Running;
  grace_.reset();
  return Done{};
}

// Writes nothing before training begins, because the folder may still be that of another run.
void Agent::report(bool at_once) {
  if (processes_.status_file.empty() || page_->begun_ns == 0) return;
  const int64_t now = steady_now_ns();
  if (!at_once && now - reported_ns_ < kReportNs) return;
  reported_ns_ = now;
  const auto own = stat_of_process(getpid());
  JobStatus status{.agent_pid = getpid(),
                   .agent_start = own ? own->start : 0,
                   .host = processes_.host,
                   .state = all_have_ended()           ? "ended"
                            : phase_ == Phase::Running ? "running"
                                                       : "recovering",
                   .epoch = place_.epoch,
                   .step = page_->step,
                   .saved_step = page_->saved_step,
                   .time_s = unix_time_s()};
  for (const RankProcess& rank : ranks_) status.ranks.push_back({rank.pid, name_of(rank.state)});
  const std::vector<JobFailure>& failures = policy_.failures();
  const size_t first = failures.size() - std::min(failures.size(), kMostReported);
  for (size_t i = first; i < failures.size(); ++i) {
    std::string line = failure_line(failures[i], int(i) + 1, processes_.host);
    line.pop_back();  // the end of the line
    status.failures.push_back(std::move(line));
  }
  write_status(processes_.status_file, status);
}

void Agent::look() {
  const auto is_waiting = [](const RankProcess& rank) { return rank.state == State::Waiting; };
  if (phase_ == Phase::Running) {
    const bool is_trouble = first_failed_ >= 0 || gathering_->has_failed() ||
                            std::any_of(ranks_.begin(), ranks_.end(), is_waiting);
    if (is_trouble) begin_settling();
  }
  if (phase_ == Phase::Settling && processes_.max_restarts == 0) {
    policy_.why_end(failure());
    begin_ending(grace_->left_ms() * 1e-3);
  }
  if (phase_ == Phase::Settling && have_settled()) decide();
  if (phase_ == Phase::Ending && grace_->left_ms() == 0) signal_all(SIGKILL);
}

Result<RanksEnd> Agent::run() {
  for (int rank = 0; rank < processes_.ranks; ++rank) TRIREME_TRY_DONE(start(rank));
  gather();
  while (true) {
    wait_for_events();
    take_signals();
    take_reports();
    reap();
    if (all_have_ended() && (phase_ != Phase::Settling) && first_failed_ < 0) break;
    if (all_have_ended() && phase_ == Phase::Ending) break;
    look();
    report(false);
  }
  report(true);
  if (not_met_) return *not_met_;
  if (num_signals_ > 1) {  // all have ended at once, as they were asked to
    end_.exit_code = kStoppedExitCode;
    end_.first_failed = -1;
  }
  end_.failures = policy_.failures();
  end_.told_failures = page_->told_failures;
  return end_;
}

}  // namespace

Result<RanksEnd> run_rank_processes(const RankProcesses& processes) {
  std::string secret = fresh_secret();
  TRIREME_TRY(page, SharedJobPage::make());
  TRIREME_TRY(rendezvous, Rendezvous::open("127.0.0.1:0", secret, processes.log));
  return Agent(processes, std::move(rendezvous), std::move(secret), std::move(page)).run();
}

}  // namespace trireme
