#include "store/remove_files.h"

#include <utility>

namespace trireme {

Status remove_files(Store& store, std::span<const WrittenFile> files) {
  for (const WrittenFile& file : files) {
    MetadataCommand remove{.kind = CommandKind::Remove};
    remove.paths.push_back(file.path);
    remove.tokens.push_back(file.record.token);
    TRIREME_TRY_DONE(store.change(std::move(remove)));
  }
  return store.collect_garbage();
}

}  // namespace trireme
