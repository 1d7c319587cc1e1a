#include "access_history.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cuflash/workload.h"
#include "harness/convert.h"

namespace cuflash::exercises {
namespace {

bool is_tensor_of_dtype(const std::string& name) {
  for (const char* one : {"Q", "K", "V", "O", "dO", "dQ", "dK", "dV"}) {
    if (name == one) return true;
  }
  return false;
}

std::vector<std::string>& names() {
  static std::vector<std::string> list;
  return list;
}

int number_of(const std::string& name) {
  const auto found = std::find(names().begin(), names().end(), name);
  if (found != names().end()) return static_cast<int>(found - names().begin());
  names().push_back(name);
  return static_cast<int>(names().size()) - 1;
}

// Q, K, V, O and gradients have rows of head_dim elements; LSE and what the workspace holds are
// floats. Of shared memory that the simulator has no type for, an access is one element.
Array array_of(const simt::LoggedArray& logged, const Problem& p) {
  Array array;
  array.number = number_of(logged.name);
  array.shared = logged.shared;
  array.workspace = logged.name == "workspace";
  array.element_bytes = logged.element_bytes;
  if (!logged.shared && is_tensor_of_dtype(logged.name)) {
    array.element_bytes = element_bytes(p.dtype), array.columns = p.head_dim;
  } else if (!logged.shared) {
    array.element_bytes = sizeof(float);
  }
  if (logged.extents.size() > 1) array.columns = logged.extents.back();
  return array;
}

// The workspace of a stage that keeps S and P, dS is that of matrices with a row for each query;
// another's holds delta.
void name_in_workspace(Element& element, const Stage& stage, Pass pass, const Problem& p) {
  const std::int64_t scores = std::int64_t{p.batch} * p.heads_q * p.seq_q * p.seq_kv;
  if (!stage.facts(pass).keeps_scores) {
    element.array = number_of("delta");
    return;
  }
  const std::int64_t n = element.row;
  if (pass == CUFLASH_BACKWARD && n >= 2 * scores) {
    element.array = number_of("delta");
    element.row = n - 2 * scores;
    return;
  }
  element.array = number_of(pass == CUFLASH_FORWARD ? "S" : n < scores ? "P" : "dS");
  element.row = (pass == CUFLASH_FORWARD || n < scores ? n : n - scores) / p.seq_kv;
  element.column = static_cast<int>(n % p.seq_kv);
}

double decoded(DType dtype, const unsigned char* bytes) {
  float value = 0;
  harness::decode(dtype, reinterpret_cast<const std::byte*>(bytes), 1, &value);
  return value;
}

}  // namespace

const std::string& array_name(int array) { return names()[array]; }

AccessHistory::AccessHistory(const Stage& stage, Pass pass, const Problem& problem,
                             const harness::Inputs& inputs, const AccessHistory* own) {
  simt::log_accesses(true);
  try {
    harness::CallOptions options;
    options.sms = told_sms(stage, pass);
    harness::run(stage, pass, problem, inputs, options);
  } catch (const std::runtime_error&) {
    // What came before the error is there.
  }
  simt::log_accesses(false);
  simt::take_findings();
  simt::AccessLog log = simt::take_access_log();
  std::vector<Array> arrays;
  for (const simt::LoggedArray& array : log.arrays) arrays.push_back(array_of(array, problem));
  products_ = own != nullptr ? products_like(std::move(log.products), own->products())
                             : named_products(std::move(log.products), pass, problem, inputs);
  auto product = products_.begin();
  for (std::size_t n = 0; n <= log.accesses.size(); ++n) {
    while (product != products_.end() && product->log.before <= n) add(*product++, own);
    if (n == log.accesses.size()) break;
    add(arrays[log.accesses[n].array], log.accesses[n], stage, pass, problem);
  }
  sites_ = std::move(log.sites);
  barrier_calls_ = std::move(log.barrier_calls);
  shuffles_ = log.shuffles;
  for (const Event& event : events_) {
    if (event.write) writes_[*event.element].push_back(&event);
  }
}

// A vector is several elements. Of an array of tiles an element is a tile.
void AccessHistory::add(const Array& array, const simt::LoggedAccess& access, const Stage& stage,
                        Pass pass, const Problem& problem) {
  const std::size_t size = array.element_bytes > 0 ? array.element_bytes : access.bytes;
  const DType dtype = size == 2 ? problem.dtype : CUFLASH_F32;
  for (int at = 0; at < access.bytes; at += static_cast<int>(size)) {
    const std::int64_t n = (access.offset + at) / static_cast<std::int64_t>(size);
    Element element;
    element.launch = access.launch;
    element.block = array.shared ? access.block : 0;
    element.array = array.number;
    element.row = n / array.columns;
    element.column = size > 16 ? -1 : static_cast<int>(n % array.columns);
    if (array.workspace) name_in_workspace(element, stage, pass, problem);
    Event event;
    event.element = &*elements_.insert(element).first;
    event.block = access.block;
    event.thread = access.thread;
    event.epoch = access.epoch;
    event.tile = access.tile;
    event.site = access.site;
    event.pitch = event.element->array == array.number ? array.columns : problem.seq_kv;
    event.write = access.write;
    event.shared = array.shared;
    if (event.write && (size == 2 || size == 4)) event.value = decoded(dtype, access.value + at);
    events_.push_back(event);
  }
}

void AccessHistory::add(const Product& product, const AccessHistory* own) {
  const simt::LoggedProduct& log = product.log;
  const simt::LoggedProduct* const like = own == nullptr      ? &log
                                          : product.like >= 0 ? &own->products()[product.like].log
                                                              : nullptr;
  if (like == nullptr || like->rows != log.rows || like->cols != log.cols) return;
  // `by_rows`: a lane holds parts of two rows, as those of the left operand and of D.
  const auto add_part = [&](const Part& part, const std::vector<float>& values,
                            const std::vector<float>& wanted, int columns, bool by_rows) {
    if (part.matrix.empty()) return;
    Event event;
    event.block = log.at.block, event.epoch = log.at.epoch;
    event.tile = log.at.tile, event.site = log.at.site;
    event.write = true;
    event.product = &product;
    Element element;
    element.launch = log.at.launch;
    element.block = log.at.block + 1;  // A matrix of this name in memory has none.
    element.array = number_of(part.matrix);
    for (std::size_t n = 0; n < values.size(); ++n) {
      const int r = static_cast<int>(n) / columns, c = static_cast<int>(n) % columns;
      event.thread = log.at.thread + (by_rows ? r / 16 * 32 + r % 8 * 4 + c % 8 / 2 : 0);
      element.row = part.row_of(r, c), element.column = part.column_of(r, c);
      event.element = &*elements_.insert(element).first;
      const std::pair<float, float> now = {values[n], wanted[n]};
      const auto [last, is_new] = last_.try_emplace(event.element, now);
      if (!is_new && last->second == now) continue;
      last->second = now;
      event.value = values[n];
      if (own != nullptr) {
        const auto& theirs = *own->writes(element);
        event.like = *std::find_if(theirs.begin(), theirs.end(), [&](const Event* one) {
          return float(one->value) == wanted[n] ||
                 (std::isnan(one->value) && std::isnan(wanted[n]));
        });
      }
      events_.push_back(event);
    }
  };
  add_part(product.a, log.a, like->a, kProductDepth, true);
  add_part(product.b, log.b, like->b, log.cols, false);
  if (!product.continues) add_part(product.d, log.d, like->d, log.cols, true);
}

const std::vector<const Event*>* AccessHistory::writes(const Element& element) const {
  const auto found = writes_.find(element);
  return found == writes_.end() ? nullptr : &found->second;
}

Elements AccessHistory::reads_before(const Event& event) const {
  Elements read;
  for (const Event& other : events_) {
    if (&other == &event) break;
    if (other.write || other.element->launch != event.element->launch) continue;
    const bool same = event.product != nullptr ? other.thread / 32 == event.thread / 32
                                               : other.thread == event.thread;
    if (other.block == event.block && same) read.insert(*other.element);
  }
  return read;
}

ReadsOfThreads AccessHistory::reads_of_block(const Event& event) const {
  ReadsOfThreads read;
  for (const Event& other : events_) {
    if (other.write || other.element->launch != event.element->launch) continue;
    if (other.block == event.block && other.epoch <= event.epoch) {
      read[other.thread].push_back(&other);
    }
  }
  return read;
}

}  // namespace cuflash::exercises
