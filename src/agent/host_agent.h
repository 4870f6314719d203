#pragma once

#include <functional>
#include <string>

#include "agent/agent_wire.h"
#include "agent/rank_processes.h"
#include "base/result.h"
#include "comm/tcp/rendezvous.h"

namespace trireme {

// The options of an agent, which brings its host into a job that another host has launched.
struct HostAgentOptions {
  std::string join;          // HOST:PORT of any agent of the job
  std::string listen;        // HOST or HOST:PORT of this host; "": that by which it reaches `join`
  std::string secret;        // of the job
  std::string name;          // of this host in the job
  std::string host;          // name of this host for users
  int slots = 0;             // for ranks; 0: as the terms of the job say
  std::string domain;        // failure domain of this host; "": as the terms of the job say
  double patience_s = 60.0;  // how long it tries to join
  // Reads the layouts of the job from the configuration that its terms name. It is called in the
  // folder of the job.
  std::function<Result<JobLayouts>(const JobTerms& terms)> layouts_of = {};
  ClassifyFailure classify = {};
  TcpLog log = {};
};

// Joins the job and takes part in it until it is over: it runs ranks of this host, and may lead the
// job. The first SIGINT or SIGTERM drains this host; the second one ends its ranks at once. The
// agent has a session of its own, so that it outlives the shell that has started it.
Result<RanksEnd> run_host_agent(const HostAgentOptions& options);

}  // namespace trireme
