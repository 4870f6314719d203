#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "raft/state_machine.h"
#include "store/metadata_command.h"

namespace trireme {

// The metadata of a store: names lead to files, files to blocks, blocks to chunks on servers, and
// servers back to blocks. Commands and questions are those of metadata_command.h.
class Metadata : public StateMachine {
 public:
  std::string apply(std::string_view command) override;
  std::string query(std::string_view question) const override;
  std::string snapshot() const override;
  Status restore(std::string_view snapshot) override;

 private:
  struct Writer {
    uint64_t token = 0;
    uint64_t renewals = 0;
  };
  struct Kept {
    uint64_t number = 0;
    std::string answer;
  };

  // Each of these checks its command before it changes anything.
  Result<std::vector<uint64_t>> run(const MetadataCommand& command);
  Status create(const MetadataCommand& command);
  Result<std::vector<uint64_t>> begin(const MetadataCommand& command);
  Status commit(const MetadataCommand& command);
  void abort(const MetadataCommand& command);
  Status renew(const MetadataCommand& command);
  Status remove(const MetadataCommand& command);
  Status lose(const MetadataCommand& command);
  Status place(const MetadataCommand& command);
  Status change_server(const MetadataCommand& command);

  Status check_maintainer(const MetadataCommand& command) const;
  Status check_is_next_maintainer(const MetadataCommand& command) const;
  Status check_path(const std::string& path) const;
  Status check_files(const MetadataCommand& command) const;
  // Returns the blocks without the chunks on disks that were replaced since the view.
  Result<std::map<uint64_t, BlockRecord>> check_blocks(const MetadataCommand& command) const;
  Status check_record(const BlockRecord& block) const;
  Status check_extents(const FileRecord& file, const std::map<uint64_t, BlockRecord>& in) const;

  // True if the file of this chunk on the server `from` is no chunk of a block.
  bool is_orphan(const Move& move) const;
  void set_server(BlockRecord& block, int32_t chunk, int32_t server);
  void add_block(const BlockRecord& block);
  void add_file(const std::string& path, const FileRecord& file);
  void remove_file(const std::string& path);
  void keep_answer(uint64_t number, const std::string& answer);

  Overview overview(uint64_t first_server) const;  // with the garbage of this server and later ones
  FileAnswer files(const MetadataQuestion& question) const;
  Result<FileAnswer> file(const std::string& path) const;
  FileAnswer blocks(const MetadataQuestion& question) const;

  StoreFacts facts_;  // id 0: the store is not created yet
  uint64_t view_ = 1;
  uint64_t next_token_ = 1;
  std::vector<ServerRecord> servers_;
  std::map<std::string, FileRecord, std::less<>> files_;
  std::map<uint64_t, BlockRecord> blocks_;
  std::map<std::string, Writer> writers_;  // by path: its newest writer
  UpkeepProgress progress_;                // of the maintainer, which is one of the writers
  std::set<Garbage> garbage_;
  std::deque<Kept> kept_;  // the newest answers, oldest first

  // These follow from the ones above.
  std::map<uint64_t, std::string> answers_;
  std::map<uint64_t, int64_t> num_extents_;  // of each block
  std::set<uint64_t> incomplete_;            // blocks that lack chunks
  std::vector<std::set<std::pair<uint64_t, int32_t>>> chunks_of_server_;
  std::vector<int64_t> bytes_of_server_;
  int64_t file_bytes_ = 0;
};

// A writer numbers its own blocks: its token, then 24 bits.
inline uint64_t block_id(uint64_t token, uint64_t number) { return token << 24 | number; }
inline uint64_t token_of_block(uint64_t block) { return block >> 24; }
inline constexpr uint64_t kMostBlocksOfToken = uint64_t{1} << 24;

}  // namespace trireme
