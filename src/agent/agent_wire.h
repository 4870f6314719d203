#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "agent/job_page.h"
#include "agent/rank_link.h"
#include "base/result.h"
#include "comm/tcp/rendezvous.h"

// The messages between the leader of a job and its agents on other hosts, as structs of fixed
// layout in little-endian order, and the functions that check received bytes.
namespace trireme {

enum class AgentMessageKind : uint32_t {
  // From the agent.
  Host,       // body: its name; number: slots, 0 if the leader decides
  Started,    // number: pid
  Report,     // body: RankReport
  Stopped,    // by SIGSTOP
  Continued,  // after it was stopped
  Ended,      // number: status of waitpid; body: its standard error
  WantsOut,   // the host should be drained
  Left,       // all its processes have ended; body: why it leaves
  // From the leader.
  Welcome,  // body: AgentWelcome
  Start,    // body: StartPlace
  Order,    // body: EpochOrder
  Signal,   // number: signal
  NoOrder,
  Writer,  // number: 1 if rank 0 runs on the host, else 0
  Bye,     // the job needs the host no more
  // From both.
  Page,  // body: PageValues; number, from the leader: wanted_epoch
  Beat,  // number: counts the beats of the agent; the leader sends each of them back
};
inline constexpr AgentMessageKind kLastAgentMessageKind = AgentMessageKind::Beat;

struct AgentMessage {
  uint32_t magic = 0x31415254;
  AgentMessageKind kind = AgentMessageKind::Beat;
  int64_t process = 0;  // number of a process, where one is meant
  int64_t number = 0;
  int64_t clock_ns = 0;  // of the sender, when it sent this
  uint32_t body_bytes = 0;
  uint32_t reserved = 0;
};
inline constexpr uint32_t kMostAgentBody = 128 << 10;

// Returns the message, or an error if it is none or its body cannot have that many bytes.
Result<AgentMessage> check_agent_message(std::span<const std::byte> bytes);

// The first words of a leader to an agent.
struct AgentWelcome {
  std::vector<std::string> command;  // of every rank
  std::string folder;                // in which the ranks run
};
std::string to_json(const AgentWelcome& welcome);
Result<AgentWelcome> check_welcome(const std::string& text);

// A place of a rank without the secret, which its agent knows.
struct StartPlace {
  TcpPlace place;
  int ranks_on_host = 1;
};
std::string to_json(const StartPlace& start);
Result<StartPlace> check_start(const std::string& text);

Result<EpochOrder> check_order(std::span<const std::byte> bytes);
Result<RankReport> check_report(std::span<const std::byte> bytes);
Result<PageValues> check_page(std::span<const std::byte> bytes);

}  // namespace trireme
