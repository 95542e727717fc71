// Telling the recorder, where one runs, which node the operator under way is.
#pragma once

#include <cstdint>

namespace opscope {

using NodeNoter = void (*)(int64_t);

inline NodeNoter& node_noter() {
  static NodeNoter noter = nullptr;
  return noter;
}

inline void tell_recorder(int64_t node) {
  if (node_noter() != nullptr) node_noter()(node);
}

}  // namespace opscope
