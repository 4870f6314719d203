#include "agent/remote_host.h"

#include <algorithm>
#include <csignal>

#include "base/clock.h"

namespace trireme {

RemoteHost::RemoteHost(Socket socket, const AgentWelcome& welcome, SharedJobPage& page)
    : channel_(std::move(socket)), page_(page), heard_ns_(steady_now_ns()) {
  channel_.send({.kind = AgentMessageKind::Welcome}, to_json(welcome));
}

RemoteHost::~RemoteHost() {
  channel_.send({.kind = AgentMessageKind::Bye});
  channel_.finish(Deadline::after(kBeatS));
}

Status RemoteHost::start(int64_t process, const TcpPlace& place, int ranks_on_host) {
  processes_.insert(process);
  channel_.send({.kind = AgentMessageKind::Start, .process = process},
                to_json(StartPlace{place, ranks_on_host}));
  return Done{};
}

void RemoteHost::send_order(int64_t process, const EpochOrder& order) {
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

Status RemoteHost::take(const AgentChannel::Received& message, std::vector<ProcessNews>& news) {
  using Kind = ProcessNews::Kind;
  const AgentMessage& head = message.head;
  const auto add = [&](Kind kind) -> ProcessNews& {
    return news.emplace_back(ProcessNews{.kind = kind, .process = head.process});
  };
  switch (head.kind) {
    case AgentMessageKind::Host:
      name_ = message.text();
      slots_ = int(std::clamp<int64_t>(head.number, 0, kLargestTcpWorld));
      is_known_ = true;
      break;
    case AgentMessageKind::Started:
      add(Kind::Started).pid = int(head.number);
      break;
    case AgentMessageKind::Report: {
      TRIREME_TRY(report, check_report(message.body));
      add(Kind::Report).report = report;
      break;
    }
    case AgentMessageKind::Stopped:
      add(Kind::Stopped);
      break;
    case AgentMessageKind::Continued:
      add(Kind::Continued);
      break;
    case AgentMessageKind::Ended: {
      ProcessNews& end = add(Kind::Ended);
      end.status = int(head.number);
      end.error_output = message.text();
      processes_.erase(head.process);
      break;
    }
    case AgentMessageKind::Page: {
      TRIREME_TRY(values, check_page(message.body));
      if (is_writer_) store(values, shift_ns_, *page_);
      break;
    }
    case AgentMessageKind::Beat:
      shift_ns_ = steady_now_ns() - head.clock_ns;
      channel_.send({.kind = AgentMessageKind::Beat, .number = head.number});
      break;
    case AgentMessageKind::WantsOut:
      wants_out_ = true;
      break;
    case AgentMessageKind::Left:
      has_left_ = true;
      why_left_ = message.text();
      break;
    default:
      return damaged("an agent has sent a message of a leader");
  }
  return Done{};
}

void RemoteHost::lose(std::vector<ProcessNews>& news) {
  is_lost_ = true;
  for (const int64_t process : processes_) {
    news.push_back({.kind = ProcessNews::Kind::Ended, .process = process, .status = SIGKILL});
  }
  processes_.clear();
}

std::vector<ProcessNews> RemoteHost::take_news() {
  std::vector<ProcessNews> news;
  if (is_lost_) return news;
  channel_.flush();
  while (const auto message = channel_.next()) {
    heard_ns_ = steady_now_ns();
    const Status taken = take(*message, news);
    if (!taken.ok()) why_left_ = taken.error().message;  // only the lease may end it
  }
  const bool is_late = steady_now_ns() - heard_ns_ > static_cast<int64_t>(kHostLeaseS * 1e9);
  if (has_left_ || is_late) lose(news);
  return news;
}

}  // namespace trireme
