#include "agent/host_agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "agent/agent_channel.h"
#include "agent/memory_folder.h"
#include "agent/own_host.h"
#include "agent/remote_host.h"
#include "agent/taken_signals.h"
#include "base/clock.h"

namespace trireme {
namespace {

constexpr int kAgentLookMs = 20;
constexpr double kGreetS = 5.0;
constexpr double kLeaveS = 2.0;  // for the last messages

int64_t ns_of(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

// One connection of an agent with its leader, from the greeting until either side leaves.
class AgentShift {
 public:
  enum class End {
    Dismissed,   // by the leader, or by a second signal
    LeaderLost,  // it has not answered for too long
  };
  AgentShift(const HostAgentOptions& options, const TakenSignals& signals,
             const std::string& memory_folder, SharedJobPage& page, Socket socket)
      : options_(options),
        signals_(signals),
        memory_folder_(memory_folder),
        page_(page),
        channel_(std::move(socket)) {}

  Result<End> run();

 private:
  void wait();
  void take_signals();
  Status take_messages();
  Status take(const AgentChannel::Received& message);
  Status begin(const AgentWelcome& welcome);
  void take_page(const PageValues& values, int64_t wanted_epoch);
  void tell_news();
  void tell_page();
  void beat();
  void leave(const std::string& why);

  const HostAgentOptions& options_;
  const TakenSignals& signals_;
  const std::string& memory_folder_;
  SharedJobPage& page_;
  AgentChannel channel_;
  std::optional<OwnHost> ranks_;  // once the leader has named their command
  PageValues told_page_;
  bool is_writer_ = false;
  bool is_dismissed_ = false;
  int num_signals_ = 0;
  int64_t num_beats_ = 0;
  int64_t beat_ns_ = 0;                    // of the last beat
  int64_t answered_ns_ = steady_now_ns();  // when the last beat was sent that was sent back
  std::array<int64_t, 64> sent_ns_ = {};   // [beat % 64]
};

void AgentShift::wait() {
  std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
  channel_.add_descriptors(entries);
  if (ranks_) ranks_->add_descriptors(entries);
  ::poll(entries.data(), entries.size(), kAgentLookMs);
}

void AgentShift::take_signals() {
  while (const int signal = signals_.next()) {
    if (signal != SIGINT && signal != SIGTERM) continue;
    if (++num_signals_ == 1) channel_.send({.kind = AgentMessageKind::WantsOut});
  }
}

Status AgentShift::begin(const AgentWelcome& welcome) {
  if (::chdir(welcome.folder.c_str()) != 0) {
    return usage(
        fmt::format("the folder {} of the job cannot be entered on host {}: {}; all hosts "
                    "must see the folder of the job under the same path",
                    welcome.folder, options_.name, std::strerror(errno)));
  }
  ranks_.emplace(options_.name, welcome.command, page_, signals_.before());
  ranks_->set_memory_folder(memory_folder_);
  return Done{};
}

// A host on which rank 0 runs has the newest values itself.
void AgentShift::take_page(const PageValues& values, int64_t wanted_epoch) {
  if (!is_writer_) {
    store(values, 0, *page_);
    told_page_ = values_of(*page_, 0);
  }
  page_->wanted_epoch = static_cast<uint64_t>(wanted_epoch);
}

Status AgentShift::take(const AgentChannel::Received& message) {
  const AgentMessage& head = message.head;
  if (head.kind == AgentMessageKind::Welcome && !ranks_) {
    TRIREME_TRY(welcome, check_welcome(message.text()));
    return begin(welcome);
  }
  if (head.kind == AgentMessageKind::Bye) {
    is_dismissed_ = true;
    return Done{};
  }
  if (head.kind == AgentMessageKind::Beat) {
    if (head.number > num_beats_ - int64_t(sent_ns_.size()) && head.number <= num_beats_) {
      answered_ns_ = sent_ns_[size_t(head.number) % sent_ns_.size()];
    }
    return Done{};
  }
  if (!ranks_) return damaged("a leader has given orders before its greeting");
  switch (head.kind) {
    case AgentMessageKind::Start: {
      TRIREME_TRY(start, check_start(message.text()));
      start.place.secret = options_.secret;
      return ranks_->start(head.process, start.place, start.ranks_on_host);
    }
    case AgentMessageKind::Order: {
      TRIREME_TRY(order, check_order(message.body));
      ranks_->send_order(head.process, order);
      return Done{};
    }
    case AgentMessageKind::Signal:
      ranks_->send_signal(head.process, int(head.number));
      return Done{};
    case AgentMessageKind::NoOrder:
      ranks_->send_no_order(head.process);
      return Done{};
    case AgentMessageKind::Writer:
      is_writer_ = head.number == 1;
      return Done{};
    case AgentMessageKind::Page: {
      TRIREME_TRY(values, check_page(message.body));
      take_page(values, head.number);
      return Done{};
    }
    default:
      return damaged("a leader has sent a message of an agent");
  }
}

Status AgentShift::take_messages() {
  channel_.flush();
  while (const auto message = channel_.next()) TRIREME_TRY_DONE(take(*message));
  return Done{};
}

void AgentShift::tell_news() {
  if (!ranks_) return;
  for (const ProcessNews& news : ranks_->take_news()) {
    AgentMessage head{.process = news.process};
    switch (news.kind) {
      case ProcessNews::Kind::Started:
        head.kind = AgentMessageKind::Started;
        head.number = news.pid;
        channel_.send(head);
        break;
      case ProcessNews::Kind::Report:
        head.kind = AgentMessageKind::Report;
        channel_.send(head, std::as_bytes(std::span(&news.report, 1)));
        break;
      case ProcessNews::Kind::Stopped:
        head.kind = AgentMessageKind::Stopped;
        channel_.send(head);
        break;
      case ProcessNews::Kind::Continued:
        head.kind = AgentMessageKind::Continued;
        channel_.send(head);
        break;
      case ProcessNews::Kind::Ended:
        head.kind = AgentMessageKind::Ended;
        head.number = news.status;
        channel_.send(head, news.error_output);
        break;
    }
  }
}

void AgentShift::tell_page() {
  if (!is_writer_) return;
  const PageValues values = values_of(*page_, 0);
  if (values == told_page_) return;
  told_page_ = values;
  channel_.send({.kind = AgentMessageKind::Page}, std::as_bytes(std::span(&values, 1)));
}

void AgentShift::beat() {
  const int64_t now = steady_now_ns();
  if (now - beat_ns_ < ns_of(kBeatS)) return;
  beat_ns_ = now;
  ++num_beats_;
  sent_ns_[size_t(num_beats_) % sent_ns_.size()] = now;
  channel_.send({.kind = AgentMessageKind::Beat, .number = num_beats_});
}

void AgentShift::leave(const std::string& why) {
  if (ranks_) ranks_->kill_all();
  tell_page();
  channel_.send({.kind = AgentMessageKind::Left}, why);
  channel_.finish(Deadline::after(kLeaveS));
}

Result<AgentShift::End> AgentShift::run() {
  channel_.send({.kind = AgentMessageKind::Host, .number = options_.slots}, options_.name);
  while (true) {
    wait();
    take_signals();
    if (const Status taken = take_messages(); !taken.ok()) {
      leave(taken.error().message);
      return taken.error();
    }
    tell_page();  // before the reports, so that the leader knows the last step when it decides
    tell_news();
    beat();
    if (is_dismissed_ || num_signals_ > 1) {
      leave(is_dismissed_ ? "" : "its agent was asked to end");
      return End::Dismissed;
    }
    if (channel_.is_broken() || steady_now_ns() - answered_ns_ > ns_of(kAgentLeaseS)) {
      if (ranks_) ranks_->kill_all();
      return End::LeaderLost;
    }
  }
}

}  // namespace

Status run_host_agent(const HostAgentOptions& options) {
  const TakenSignals signals;
  // It outlives the ranks and a lost leader. Ranks without one keep no checkpoints in memory.
  const Result<MemoryFolder> memory = MemoryFolder::make();
  if (!memory.ok() && options.log) options.log(memory.error().message);
  const std::string memory_folder = memory.ok() ? memory->path() : "";
  while (true) {
    const Deadline deadline = Deadline::after(options.patience_s);
    TRIREME_TRY(page, SharedJobPage::make());
    TRIREME_TRY(socket, connect_to(options.leader, deadline));
    const Hello hello{.purpose = Purpose::Agent};
    TRIREME_TRY_DONE(greet(socket, options.secret, hello, Deadline::after(kGreetS)));
    AgentShift shift(options, signals, memory_folder, page, std::move(socket));
    TRIREME_TRY(end, shift.run());
    if (end == AgentShift::End::Dismissed) return Done{};
    if (options.log) options.log("the leader is lost; this host joins again if it comes back");
  }
}

}  // namespace trireme
