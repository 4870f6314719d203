#include "agent/rank_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "agent/job_page.h"
#include "watch/rank_pages.h"

namespace trireme {
namespace {

// An agent asks the other ranks for their stacks when one has failed. Some of them are just ending
// then, and have no link any more.
TEST(RankLink, ARankThatIsAskedForItsStackAfterItsLinkIsGoneEndsAsIfItWereNot) {
  const auto job = SharedJobPage::make();
  const auto pages = SharedRankPages::make();
  ASSERT_TRUE(job.ok() && pages.ok());
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    {
      const auto link = RankLink::open({.socket = sockets[1],
                                        .page = job->fd(),
                                        .terminal = STDERR_FILENO,
                                        .pages = pages->fd()});
      if (!link.ok()) std::_Exit(1);
    }
    std::raise(SIGUSR2);
    std::_Exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(stacks_in((*pages)->stacks).size(), 1U);
  for (const int socket : sockets) ::close(socket);
}

}  // namespace
}  // namespace trireme
