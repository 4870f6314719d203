#include "chaos/mapped_rank.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "watch/rank_sample.h"

namespace trireme {

int MappedRank::number() const { return RankSample::of(pages->progress).rank; }

std::vector<MappedRank> mapped(const std::vector<LiveRank>& ranks) {
  std::vector<MappedRank> found;
  for (const LiveRank& rank : ranks) {
    const std::string path = fmt::format("/proc/{}/fd/{}", rank.pid, rank.pages);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) continue;
    Result<SharedRankPages> pages = SharedRankPages::map(fd);
    ::close(fd);
    if (pages.ok()) found.push_back({rank, std::move(*pages)});
  }
  return found;
}

}  // namespace trireme
