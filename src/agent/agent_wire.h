#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "agent/host_list.h"
#include "agent/job_page.h"
#include "agent/rank_host.h"
#include "agent/rank_link.h"
#include "agent/ranks_end.h"
#include "base/result.h"
#include "comm/tcp/rendezvous.h"
#include "coord/membership_protocol.h"
#include "watch/blame.h"

// The messages between the agents of a job, as structs of fixed layout in little-endian order, and
// the functions that check received bytes. An agent connects to the one that leads.
namespace trireme {

enum class AgentMessageKind : uint32_t {
  // To the leader.
  Join,       // a new agent asks for the terms; body: its name; number: slots, 0: as the terms say
  Living,     // after a connection was made, for each process; body: LivingProcess
  Host,       // after these; body: the name of the host
  Ready,      // number: the membership in which this host takes orders now
  Started,    // number: pid
  Report,     // body: RankReport
  Stopped,    // by SIGSTOP
  Continued,  // after it was stopped
  Ended,      // number: status of waitpid; body: its standard error
  WantsOut,   // the host should be drained
  Stop,       // the user has sent this signal to the launcher; number: signal
  // From the leader.
  Terms,   // body: JobTerms
  Start,   // body: StartPlace
  Order,   // body: EpochOrder
  Signal,  // number: signal
  NoOrder,
  Writer,   // number: 1 if rank 0 runs on the host, else 0
  Drain,    // the host is drained
  Failure,  // body: JobFailure; number: its number in the job, from 1
  Bye,      // the job is over; body: RanksEnd
  // From both.
  Page,        // body: PageValues; number, from the leader: wanted_epoch
  Membership,  // body: MembershipMessage
  // Between an agent and a command that only asks for the status of the job (status_wire.h).
  AskStatus,
  StatusPiece,  // of a StatusAnswer; process: its kind; number: bytes that follow; body: its text
  // To the leader.
  Unreached,   // the hosts that this one does not reach now; body: their names, one in each line
  HandedOver,  // answers HandOver, whether it was possible or not
  // From the leader.
  HandOver,  // body: the host that gets the parts of checkpoints in the memory of this one
  // To the leader.
  Watched,  // body: WatchedWords of each process of the host
  // From the leader.
  Blame,  // the process hangs, as other hosts have seen, and should be killed; body: why
};
inline constexpr AgentMessageKind kLastAgentMessageKind = AgentMessageKind::Blame;

struct AgentMessage {
  uint32_t magic = 0x31415254;
  AgentMessageKind kind = AgentMessageKind::Join;
  int64_t process = 0;  // number of a process, where one is meant
  int64_t number = 0;
  int64_t clock_ns = 0;  // of the sender, when it sent this
  uint32_t body_bytes = 0;
  uint32_t reserved = 0;
};
inline constexpr uint32_t kMostAgentBody = 128 << 10;

// Returns the message, or an error if it is none or its body cannot have that many bytes.
Result<AgentMessage> check_agent_message(std::span<const std::byte> bytes);

// The lease of an agent (docs/membership.md).
inline constexpr double kShortestLeaseS = 1.0;
inline constexpr double kLongestLeaseS = 600.0;

// The terms of a job: every agent must know them to lead it, and can tell them to others.
struct JobTerms {
  std::string job;         // distinguishes this launch from others that use the same Coord
  std::string coord;       // where agents meet (open_coord)
  std::string coord_keys;  // the name of the job there
  double lease_s = 0.0;
  std::vector<std::string> command;  // that starts every rank
  std::string folder;                // in which the ranks run
  std::string run_dir;               // the folder of the run
  int ranks = 1;
  std::string layouts;  // which layouts the job may take later, as the launcher names them
  int max_restarts = 0;
  bool leaves_lost_out = false;
  bool skips_bad_batches = false;  // run.skip_bad_batches
  double start_timeout_s = 60.0;
  int num_agents = 1;            // the job begins when this many agents have joined
  std::vector<NamedHost> hosts;  // with their slots, in the order in which they get ranks
  int usual_slots = 1;           // of a host that `hosts` does not name
};
std::string to_json(const JobTerms& terms);
Result<JobTerms> check_terms(const std::string& text);

std::string to_json(const JobFailure& failure);
Result<JobFailure> check_failure(const std::string& text);

// The text leaves out the failures, because every agent knows them.
std::string to_json(const RanksEnd& end);
Result<RanksEnd> check_end(const std::string& text);

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
Result<LivingProcess> check_living(std::span<const std::byte> bytes);

// What the agent of a host has seen of a rank (JobWatch). A host with more processes than a message
// can have tells of the first ones.
struct WatchedWords {
  int64_t process = 0;
  RankSample sample;
  int64_t silent_ns = 0;
  int64_t budget_ns = 0;
  int64_t most_ns = 0;
  int32_t is_stopped = 0;
  int32_t reserved = 0;
};
inline constexpr size_t kMostWatched = kMostAgentBody / sizeof(WatchedWords);
std::vector<WatchedWords> words_of(const std::vector<WatchedProcess>& watched);
Result<std::vector<WatchedProcess>> check_watched(std::span<const std::byte> bytes);

// A MembershipMessage without snapshots, because launched jobs have none.
struct MembershipWords {
  MembershipMessage::Kind kind = MembershipMessage::Kind::Alive;
  int32_t reserved = 0;
  int64_t epoch = 0;
  int64_t step = 0;
  LeaseId lease = 0;
};
MembershipWords words_of(const MembershipMessage& message);
Result<MembershipMessage> check_membership(std::span<const std::byte> bytes);

}  // namespace trireme
