#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "store/metadata_records.h"

// The commands of the metadata of a store, the questions and the answers, as packed bytes.
namespace trireme {

enum class CommandKind : uint8_t {
  Create,  // facts, servers: the first command of a store
  // paths: a token for each; it fences older writers of the path. tokens: if there is one, the path
  // is kMaintainerPath, and its newest token must be this one; 0: no maintainer may be at work
  Begin,
  Commit,  // view, files, blocks: seals the blocks and makes the files visible, all or nothing
  Abort,   // tokens: their writers are gone
  // paths[0]. tokens: if there is one, the file must have it. So a request that arrives late does
  // not remove a file that was put meanwhile.
  Remove,
  Lose,     // moves: these chunks are missing or damaged; Move::to is not used
  Place,    // moves: the chunks are now on other servers
  Collect,  // garbage that was removed
  Server,   // server_index, servers[0]: its new state and incarnation
  Renew,    // tokens: their writers are still at work; progress: of the maintainer, if it has one
};
inline constexpr CommandKind kLastCommandKind = CommandKind::Renew;

// True for the commands that move chunks, remove them or change servers: Place, Collect and Server.
// In a store of servers such a command has in `tokens` the token that Begin gave for
// kMaintainerPath, and it is refused once a newer maintainer has begun. No file may have this name.
bool maintains(CommandKind kind);
inline constexpr const char* kMaintainerPath = ".maintainer";

struct WrittenFile {
  std::string path;
  FileRecord record;
};

struct Move {
  uint64_t block = 0;
  int32_t chunk = 0;
  int32_t from = kNoServer;  // refused if the chunk is not there
  int32_t to = kNoServer;
};

struct MetadataCommand {
  CommandKind kind = CommandKind::Begin;
  // Drawn by the client (drawn_number). A command with a number that was seen before changes
  // nothing and gets the answer that it got then.
  uint64_t number = 0;
  StoreFacts facts = {};
  uint64_t view = 0;  // of the metadata when the writer chose servers
  std::vector<std::string> paths = {};
  std::vector<uint64_t> tokens = {};
  std::vector<WrittenFile> files = {};
  std::vector<BlockRecord> blocks = {};
  std::vector<Move> moves = {};
  std::vector<Garbage> garbage = {};
  std::vector<ServerRecord> servers = {};
  int32_t server_index = 0;
  UpkeepProgress progress = {};
};
// Returns a random number other than 0, for a command or a new store.
uint64_t drawn_number();
std::string pack_command(const MetadataCommand& command);
Result<MetadataCommand> unpack_command(std::string_view bytes);

// An answer is an error, or what was asked for. Unpacking an error returns it.
std::string pack_error(const Error& error);
std::string pack_tokens(const std::vector<uint64_t>& tokens);
Result<std::vector<uint64_t>> unpack_tokens(std::string_view answer);

enum class QuestionKind : uint8_t {
  Overview,
  File,    // text: path
  Files,   // text: a path or a folder, "": all; at most `most` files, behind the path `after`
  Blocks,  // blocks behind block `number`, at most `most`
  Queue,   // blocks that lack chunks, behind block `number`, at most `most`
};

struct MetadataQuestion {
  QuestionKind kind = QuestionKind::Overview;
  std::string text = {};
  std::string after = {};
  uint64_t number = 0;  // for Overview: garbage of servers before this one is left out
  uint32_t most = 1024;
};
std::string pack_question(const MetadataQuestion& question);
Result<MetadataQuestion> unpack_question(std::string_view bytes);

struct Overview {
  StoreFacts facts;
  uint64_t view = 0;
  uint64_t num_files = 0;
  uint64_t file_bytes = 0;
  uint64_t num_blocks = 0;
  uint64_t num_incomplete = 0;  // blocks that lack chunks
  uint64_t maintainer = 0;  // token of the newest maintainer that has not ended; 0: there is none
  uint64_t maintainer_renewals = 0;
  UpkeepProgress progress = {};  // of this maintainer
  std::vector<ServerRecord> servers;
  std::vector<int64_t> chunks_of_server;
  std::vector<int64_t> bytes_of_server;
  std::vector<uint64_t> open_tokens;  // of writers of files
  std::vector<uint64_t> renewals;     // of each open token: how often its writer has renewed it
  std::vector<Garbage> garbage;       // at most 65,536 of it
};
std::string pack_overview(const Overview& overview);
Result<Overview> unpack_overview(std::string_view answer);

struct FileAnswer {
  std::vector<WrittenFile> files;
  std::vector<BlockRecord> blocks;  // of the first file, if one file was asked for
};
std::string pack_files(const FileAnswer& answer);
Result<FileAnswer> unpack_files(std::string_view answer);

}  // namespace trireme
