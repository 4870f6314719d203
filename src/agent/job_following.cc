// A member of a job does what the leader orders.
#include <fmt/format.h>

#include "agent/job_member.h"
#include "agent/rank_epochs.h"

namespace trireme {

bool JobMember::is_of_membership(uint64_t rank_epoch) const {
  return running_.epoch > 0 && membership_of(rank_epoch) == running_.epoch;
}

// The first words on a new connection: which processes live here, then the name.
void JobMember::greet_leader() {
  AgentChannel& channel = *link_.channel();
  if (is_writer_) {
    told_page_ = values_of(*page_, 0);
    channel.send({.kind = AgentMessageKind::Page}, std::as_bytes(std::span(&told_page_, 1)));
  }
  for (const LivingProcess& process : own_->living()) {
    channel.send({.kind = AgentMessageKind::Living, .process = process.process},
                 std::as_bytes(std::span(&process, 1)));
  }
  channel.send({.kind = AgentMessageKind::Host}, options_.name);
  if (own_->is_drained()) channel.send({.kind = AgentMessageKind::WantsOut});
  for (int signal = 0; signal < num_signals_; ++signal) {
    channel.send({.kind = AgentMessageKind::Stop, .number = last_signal_});
  }
  if (const auto unsent = unsent_.find(link_.leader()); unsent != unsent_.end()) {
    follow(SendMessage{unsent->first, unsent->second});
    unsent_.erase(link_.leader());
  }
  told_ready_ = 0;
  tell_ready();
  told_unreached_.clear();
}

void JobMember::tell_ready() {
  AgentChannel* const channel = link_.channel();
  const bool is_told = told_ready_ == running_.epoch;
  if (channel == nullptr || running_.epoch == 0 || is_told) return;
  if (link_.leader() != running_.leader) return;
  told_ready_ = running_.epoch;
  channel->send({.kind = AgentMessageKind::Ready, .number = running_.epoch});
}

// Orders of a membership that does not run here any more are dropped.
Status JobMember::take_order(const AgentChannel::Received& message) {
  const AgentMessage& head = message.head;
  switch (head.kind) {
    case AgentMessageKind::Start: {
      TRIREME_TRY(start, check_start(message.text()));
      if (!is_of_membership(start.place.epoch)) return Done{};
      start.place.secret = options_.secret;
      return own_->start(head.process, start.place, start.ranks_on_host);
    }
    case AgentMessageKind::Order: {
      TRIREME_TRY(order, check_order(message.body));
      if (is_of_membership(order.epoch)) own_->send_order(head.process, order);
      return Done{};
    }
    case AgentMessageKind::Signal:
      own_->send_signal(head.process, int(head.number));
      return Done{};
    case AgentMessageKind::NoOrder:
      own_->send_no_order(head.process);
      return Done{};
    case AgentMessageKind::Writer:
      is_writer_ = head.number == 1;
      return Done{};
    case AgentMessageKind::Drain:
      own_->drain();
      return Done{};
    case AgentMessageKind::Blame:
      own_->blame(head.process, message.text());
      return Done{};
    case AgentMessageKind::HandOver:
      own_->hand_over_to(message.text());
      return Done{};
    case AgentMessageKind::Page: {
      TRIREME_TRY(values, check_page(message.body));
      if (!is_writer_) {  // a host on which rank 0 runs has the newest values itself
        store(values, 0, *page_);
        told_page_ = values_of(*page_, 0);
      }
      page_->wanted_epoch = static_cast<uint64_t>(head.number);
      return Done{};
    }
    case AgentMessageKind::Failure: {
      TRIREME_TRY(failure, check_failure(message.text()));
      if (head.number != std::ssize(failures_) + 1) return Done{};
      failures_.push_back(failure);
      own_->keep_evidence(failure, int(head.number));
      return Done{};
    }
    case AgentMessageKind::Bye:
      end_with(check_end(message.text()));
      return Done{};
    case AgentMessageKind::Membership: {
      TRIREME_TRY(membership, check_membership(message.body));
      follow(agent_.on_message(double(steady_now_ns()) * 1e-9, link_.leader(), membership));
      return Done{};
    }
    default:
      return damaged("a leader has sent a message of an agent");
  }
}

void JobMember::tell_news(std::vector<ProcessNews> news) {
  AgentChannel* const channel = link_.channel();
  if (channel == nullptr) return;
  for (const ProcessNews& one : news) {
    AgentMessage head{.process = one.process};
    switch (one.kind) {
      case ProcessNews::Kind::Started:
        head.kind = AgentMessageKind::Started;
        head.number = one.pid;
        channel->send(head);
        break;
      case ProcessNews::Kind::Report:
        head.kind = AgentMessageKind::Report;
        channel->send(head, std::as_bytes(std::span(&one.report, 1)));
        break;
      case ProcessNews::Kind::Stopped:
        head.kind = AgentMessageKind::Stopped;
        channel->send(head);
        break;
      case ProcessNews::Kind::Continued:
        head.kind = AgentMessageKind::Continued;
        channel->send(head);
        break;
      case ProcessNews::Kind::Ended:
        head.kind = AgentMessageKind::Ended;
        head.number = one.status;
        channel->send(head, one.error_output);
        break;
    }
  }
}

void JobMember::tell_page() {
  AgentChannel* const channel = link_.channel();
  if (!is_writer_ || channel == nullptr) return;
  const PageValues values = values_of(*page_, 0);
  if (values == told_page_) return;
  told_page_ = values;
  channel->send({.kind = AgentMessageKind::Page}, std::as_bytes(std::span(&values, 1)));
}

// The leader joins the waits of all hosts.
void JobMember::tell_watched() {
  AgentChannel* const channel = link_.channel();
  if (channel == nullptr) return;
  const auto watched = own_->take_watched();
  if (!watched) return;
  const std::vector<WatchedWords> words = words_of(*watched);
  channel->send({.kind = AgentMessageKind::Watched}, std::as_bytes(std::span(words)));
}

// Gives the parts of checkpoints in the memory of this host to another one, if the leader wants it.
void JobMember::hand_over() {
  if (own_->heir().empty()) return;
  if (sender_ == nullptr) {
    const auto& agents = agent_.view().agents;
    const auto heir = agents.find(own_->heir());
    sender_ = std::make_unique<PartsSender>(heir == agents.end() ? "" : heir->second.card.address,
                                            options_.secret, options_.name, options_.memory_folder);
  }
  if (!sender_->is_over()) return;
  if (const Status& sent = sender_->result(); !sent.ok()) {
    say(fmt::format("host {} cannot give its checkpoints in memory to {}: {}", options_.name,
                    own_->heir(), sent.error().message));
  }
  sender_.reset();
  own_->note_handed_over();
  if (AgentChannel* const channel = link_.channel(); channel != nullptr) {
    channel->send({.kind = AgentMessageKind::HandedOver});
  }
}

// News is lost if nobody is connected. A new leader is told what lives here.
void JobMember::follow_leader() {
  if (link_.advance()) greet_leader();
  if (AgentChannel* const channel = link_.channel(); channel != nullptr) {
    channel->flush();
    while (link_.channel() == channel && !end_) {
      const auto message = channel->next();
      if (!message) break;
      if (const Status taken = take_order(*message); !taken.ok()) {
        say(taken.error().message);
        channel->close(taken.error().message);
      }
    }
  }
  tell_unreached();
  tell_watched();
  tell_page();  // before the reports, so that the leader knows the last step when it decides
  tell_news(own_->take_news());
}

}  // namespace trireme
