// The copies of the metadata, which a store compares and writes again.

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <set>
#include <utility>

#include "store/chunk_folder.h"
#include "store/folder_identity.h"
#include "store/mirrored_log.h"
#include "store/store.h"
#include "store/visit_blocks.h"

namespace trireme {
namespace {

constexpr double kCheckS = 10.0;

}  // namespace

std::vector<std::string> Store::check_metadata_of_servers(const std::string& what) {
  std::vector<std::string> found(targets_.size());
  const Result<Overview> overview = this->overview();
  if (!overview.ok()) return found;
  std::mutex mutex;
  std::condition_variable has_news;
  size_t num_open = targets_.size();
  for (size_t server = 0; server < targets_.size(); ++server) {
    StoreRequest request = request_to(StoreOp::CheckMetadata, overview->servers[server]);
    request.text = what;
    work_.add([&, request, server] {
      std::string problem;
      if (targets_[server] != nullptr) {
        const Result<StoreReply> reply = peers_[server]->ask(request, kCheckS);
        if (reply.ok()) problem = reply->text;
      }
      const std::lock_guard lock(mutex);
      found[server] = problem;
      --num_open;
      has_news.notify_all();
    });
  }
  std::unique_lock lock(mutex);
  has_news.wait(lock, [&] { return num_open == 0; });
  return found;
}

std::vector<std::string> Store::metadata_problems() {
  if (is_shared()) return check_metadata_of_servers("");
  return static_cast<MirroredLog&>(*log_).problems();
}

Result<int64_t> Store::mend_metadata() {
  if (!is_shared()) {
    TRIREME_TRY(num_mended, static_cast<MirroredLog&>(*log_).mend());
    return num_mended + std::exchange(num_mended_identities_, 0);
  }
  const std::vector<std::string> found = check_metadata_of_servers(kMend);
  return std::ranges::count_if(found, [](const auto& problem) { return !problem.empty(); });
}

// A folder may be the one of another server, or the disk that an older one has replaced. Its files
// say to which store it belongs. Its chunks say to which server: the metadata have most of them at
// this one. An older disk may be taken for the newer one, whose chunks are then missing and are
// written again.
Result<bool> Store::has_contents_of(size_t server) {
  const std::string& folder = file_.dirs[server];
  ChunkFolder chunks(folder, file_.id, options_.faults);
  TRIREME_TRY(names, chunks.list());
  const std::set<ChunkName> there(names.begin(), names.end());
  int64_t num_mine = 0;
  int64_t num_of_others = 0;
  TRIREME_TRY_DONE(for_each_block(*this, QuestionKind::Blocks, [&](const BlockRecord& block) {
    for (int chunk = 0; chunk < int(block.servers.size()); ++chunk) {
      if (!there.contains({block.id, chunk})) continue;
      const bool is_mine = block.servers[size_t(chunk)] == int32_t(server);
      num_mine += is_mine ? 1 : 0;
      num_of_others += is_mine ? 0 : 1;
    }
    return Status(Done{});
  }));
  if (num_mine < num_of_others) return false;
  if (num_mine > 0) return true;
  Metadata metadata;
  const auto log = MirroredLog::open({folder}, {}, metadata, options_.faults);
  if (!log.ok()) return false;
  const std::string question = pack_question({.kind = QuestionKind::Overview});
  const Result<Overview> overview = unpack_overview(metadata.query(question));
  return overview.ok() && overview->facts.id == file_.id;
}

Result<int64_t> Store::mend_identities(const Overview& overview) {
  int64_t num_mended = 0;
  for (size_t server = 0; server < file_.dirs.size(); ++server) {
    const std::string& folder = file_.dirs[server];
    std::error_code error;
    const bool is_lost = targets_[server] == nullptr && !is_empty_folder(folder) &&
                         std::filesystem::is_directory(folder, error) &&
                         !read_identity(folder).ok();
    if (!is_lost) continue;
    TRIREME_TRY(is_mine, has_contents_of(server));
    if (!is_mine) continue;
    const ServerRecord& record = overview.servers[server];
    const FolderIdentity identity{.store = file_.id,
                                  .store_name = file_.name,
                                  .server = record.name,
                                  .incarnation = record.incarnation};
    num_mended += write_identity(folder, identity, options_.faults).ok() ? 1 : 0;
  }
  return num_mended;
}

}  // namespace trireme
