#include "simt/fences.h"

#include <algorithm>
#include <utility>

namespace cuflash::simt {
namespace {

void learn(KnownFences& known, const KnownFences& more) {
  for (const auto& [channel, count] : more) {
    std::size_t& heard = known[channel];
    heard = std::max(heard, count);
  }
}

void include(Fence& joined, const Fence& fence) {
  joined.block_start = fence.block_start;
  joined.block_only = fence.block_only;
  joined.all = std::max(joined.all, fence.all);
  for (const auto& [thread, before] : fence.of_threads) {
    Stamp& latest = joined.of_threads[thread];
    latest = std::max(latest, before);
  }
  if (joined.proxied.size() < fence.proxied.size()) joined.proxied.resize(fence.proxied.size());
  for (std::size_t t = 0; t < fence.proxied.size(); ++t) {
    joined.proxied[t] = std::max(joined.proxied[t], fence.proxied[t]);
  }
  learn(joined.known, fence.known);
}

}  // namespace

bool Fence::covers(Stamp access, bool proxy_fenced) const {
  if (access < block_start) return false;
  if (proxy_fenced) {
    const auto thread = static_cast<std::size_t>(stamp_thread(access));
    return thread < proxied.size() && access < proxied[thread];
  }
  if (access < all) return true;
  const auto thread = of_threads.find(stamp_thread(access));
  return thread != of_threads.end() && access < thread->second;
}

void Fences::begin_launch() {
  in_use_ = false;
  channels_.clear();
  of_global_.clear();
}

void Fences::begin_block(Stamp block_start) {
  block_start_ = block_start;
  of_shared_.clear();
}

void Fences::call(ThreadFences& self, Fence fence) {
  in_use_ = true;
  if (fence.block_only) {
    self.block = std::make_shared<const Fence>(std::move(fence));
  } else {
    self.device = std::make_shared<const Fence>(std::move(fence));
    self.block = nullptr;
  }
}

// An atomic operation: the thread is ordered after all fences of this address's channel, and adds
// its own.
void Fences::atomic(ThreadFences& self, bool shared, std::uintptr_t address) {
  Channel& channel = channel_at(shared, address);
  learn_from(self, channel);
  for (const auto& fence : {self.device, self.block}) {
    if (fence != nullptr) announce(channel, fence);
  }
}

void Fences::release(std::uintptr_t address, Fence fence) {
  in_use_ = true;
  announce(channel_at(false, address), std::make_shared<const Fence>(std::move(fence)));
}

void Fences::acquire(ThreadFences& self, std::uintptr_t address) {
  learn_from(self, channel_at(false, address));
}

Channel& Fences::channel_at(bool shared, std::uintptr_t address) {
  Channel*& channel = (shared ? of_shared_ : of_global_)[address];
  if (channel == nullptr) channel = &channels_.emplace_back();
  return *channel;
}

void Fences::learn_from(ThreadFences& self, const Channel& channel) {
  if (channel.fences.empty()) return;
  learn(self.known, channel.known);
  self.known[&channel] = channel.fences.size();
}

void Fences::announce(Channel& channel, const std::shared_ptr<const Fence>& fence) {
  channel.fences.push_back(fence);
  learn(channel.known, fence->known);
}

void Fences::meet(const std::vector<ThreadFences*>& threads) const {
  const auto joined = [&](std::shared_ptr<const Fence> ThreadFences::*scope) {
    std::shared_ptr<Fence> all;
    for (const ThreadFences* thread : threads) {
      if (thread->*scope == nullptr) continue;
      if (all == nullptr) all = std::make_shared<Fence>();
      include(*all, *(thread->*scope));
    }
    return all;
  };
  const auto device = joined(&ThreadFences::device), block = joined(&ThreadFences::block);
  KnownFences known, proxied;
  for (const ThreadFences* thread : threads) {
    learn(known, thread->known);
    learn(proxied, thread->proxied);
  }
  for (ThreadFences* thread : threads) *thread = {device, block, known, proxied};
}

bool Fences::happens_before(Stamp access, const KnownFences& known, bool proxy_fenced) const {
  for (const auto& [channel, count] : known) {
    // Blocks run one after the other, so the fences of one block are adjacent.
    const auto begin = channel->fences.begin();
    auto after = std::partition_point(
        begin, begin + count, [&](const auto& fence) { return fence->block_start <= access; });
    for (const Stamp block = after == begin ? 0 : (*(after - 1))->block_start;
         after != begin && (*(after - 1))->block_start == block; --after) {
      const Fence& fence = **(after - 1);
      if (fence.block_only && fence.block_start != block_start_) continue;
      if (fence.covers(access, proxy_fenced)) return true;
    }
  }
  return false;
}

}  // namespace cuflash::simt
