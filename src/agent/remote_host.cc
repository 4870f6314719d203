#include "agent/remote_host.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "comm/fabric.h"

namespace trireme {

void RemoteHost::receive() {
  channel_.flush();
  while (const auto message = channel_.next()) {
    heard_ns_ = steady_now_ns();
    if (const Status taken = take(*message); !taken.ok()) {
      channel_.close(taken.error().message);
      return;
    }
  }
}

double RemoteHost::silent_s() const { return double(steady_now_ns() - heard_ns_) * 1e-9; }

void RemoteHost::send_terms(const JobTerms& terms) {
  asks_for_terms_ = false;
  channel_.send({.kind = AgentMessageKind::Terms}, to_json(terms));
}

void RemoteHost::send_membership(const MembershipMessage& message) {
  const MembershipWords words = words_of(message);
  channel_.send({.kind = AgentMessageKind::Membership}, std::as_bytes(std::span(&words, 1)));
}

void RemoteHost::send_failure(const JobFailure& failure, int number) {
  channel_.send({.kind = AgentMessageKind::Failure, .number = number}, to_json(failure));
}

void RemoteHost::dismiss(const RanksEnd& end, Deadline deadline) {
  channel_.send({.kind = AgentMessageKind::Bye}, to_json(end));
  channel_.finish(deadline);
}

Status RemoteHost::start(int64_t process, const TcpPlace& place, int ranks_on_host) {
  living_[process] = {
      .process = process, .epoch = place.epoch, .rank = place.rank, .size = place.size};
  channel_.send({.kind = AgentMessageKind::Start, .process = process},
                to_json(StartPlace{place, ranks_on_host}));
  return Done{};
}

void RemoteHost::send_order(int64_t process, const EpochOrder& order) {
  if (const auto found = living_.find(process); found != living_.end()) found->second.take(order);
  EpochOrder theirs = order;
  for (int64_t* time :
       {&theirs.lost_step_ns, &theirs.detected_ns, &theirs.classified_ns, &theirs.made_ns}) {
    if (*time != 0) *time -= shift_ns_;
  }
  channel_.send({.kind = AgentMessageKind::Order, .process = process},
                std::as_bytes(std::span(&theirs, 1)));
}

void RemoteHost::send_signal(int64_t process, int signal) {
  channel_.send({.kind = AgentMessageKind::Signal, .process = process, .number = signal});
}

void RemoteHost::send_no_order(int64_t process) {
  channel_.send({.kind = AgentMessageKind::NoOrder, .process = process});
}

void RemoteHost::share_page() {
  SharedJobPage& page = page_;
  const PageValues values = values_of(*page, -shift_ns_);
  channel_.send(
      {.kind = AgentMessageKind::Page, .number = static_cast<int64_t>(page->wanted_epoch.load())},
      std::as_bytes(std::span(&values, 1)));
}

void RemoteHost::set_writer(bool is_writer) {
  is_writer_ = is_writer;
  channel_.send({.kind = AgentMessageKind::Writer, .number = is_writer ? 1 : 0});
}

void RemoteHost::hand_over_to(const std::string& host) {
  has_handed_over_ = false;
  channel_.send({.kind = AgentMessageKind::HandOver}, host);
}

void RemoteHost::drain() {
  is_drained_ = true;
  channel_.send({.kind = AgentMessageKind::Drain});
}

void RemoteHost::blame(int64_t process, const std::string& why) {
  channel_.send({.kind = AgentMessageKind::Blame, .process = process}, why);
}

std::vector<LivingProcess> RemoteHost::living() const {
  std::vector<LivingProcess> all;
  for (const auto& [number, process] : living_) all.push_back(process);
  return all;
}

// An agent on whose host rank 0 runs tells a new leader the progress of the job before its name.
void RemoteHost::take_page(const PageValues& values) {
  SharedJobPage& page = page_;
  if (is_writer_ || (!is_known_ && is_further(values, *page))) store(values, shift_ns_, *page);
}

Status RemoteHost::take_about_process(const AgentChannel::Received& message) {
  using Kind = ProcessNews::Kind;
  const AgentMessage& head = message.head;
  const auto found = living_.find(head.process);
  if (found == living_.end()) return Done{};  // of an earlier leader
  LivingProcess& process = found->second;
  ProcessNews news{.process = head.process};
  switch (head.kind) {
    case AgentMessageKind::Started:
      process.pid = int(head.number);
      news.kind = Kind::Started;
      news.pid = process.pid;
      break;
    case AgentMessageKind::Report: {
      TRIREME_TRY(report, check_report(message.body));
      process.take(report);
      news.kind = Kind::Report;
      news.report = report;
      break;
    }
    case AgentMessageKind::Ended:
      news.kind = Kind::Ended;
      news.status = int(head.number);
      news.error_output = message.text();
      living_.erase(found);
      break;
    default:
      process.is_stopped = head.kind == AgentMessageKind::Stopped ? 1 : 0;
      news.kind = process.is_stopped != 0 ? Kind::Stopped : Kind::Continued;
      break;
  }
  news_.push_back(std::move(news));
  return Done{};
}

Status RemoteHost::take(const AgentChannel::Received& message) {
  const AgentMessage& head = message.head;
  switch (head.kind) {
    case AgentMessageKind::Join:
      name_ = message.text();
      asks_for_terms_ = true;
      asked_slots_ = int(std::clamp<int64_t>(head.number, 0, kLargestTcpWorld));
      break;
    case AgentMessageKind::Living: {
      TRIREME_TRY(process, check_living(message.body));
      living_[process.process] = process;
      break;
    }
    case AgentMessageKind::Host:
      name_ = message.text();
      is_known_ = true;
      break;
    case AgentMessageKind::Ready:
      ready_in_ = head.number;
      break;
    case AgentMessageKind::Started:
    case AgentMessageKind::Report:
    case AgentMessageKind::Stopped:
    case AgentMessageKind::Continued:
    case AgentMessageKind::Ended:
      return take_about_process(message);
    case AgentMessageKind::HandedOver:
      has_handed_over_ = true;
      break;
    case AgentMessageKind::Watched: {
      TRIREME_TRY(watched, check_watched(message.body));
      watched_ = std::move(watched);
      break;
    }
    case AgentMessageKind::WantsOut:
      is_drained_ = true;
      break;
    case AgentMessageKind::Stop:
      ++num_signals_;
      last_signal_ = int(head.number);
      break;
    case AgentMessageKind::Unreached: {
      std::istringstream names(message.text());
      unreached_.clear();
      for (std::string name; std::getline(names, name);) unreached_.insert(name);
      break;
    }
    case AgentMessageKind::Page: {
      shift_ns_ = steady_now_ns() - head.clock_ns;
      TRIREME_TRY(values, check_page(message.body));
      take_page(values);
      break;
    }
    case AgentMessageKind::Membership: {
      shift_ns_ = steady_now_ns() - head.clock_ns;
      TRIREME_TRY(membership, check_membership(message.body));
      membership_.push_back(membership);
      break;
    }
    default:
      return damaged("an agent has sent a message of a leader");
  }
  return Done{};
}

}  // namespace trireme
