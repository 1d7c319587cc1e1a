"""Attention as a module."""
from torch import Tensor, nn

from . import capi, library
from .functional import attention_bhsd
from .shapes import check_options


class FlashAttention(nn.Module):
    """softmax(Q Kᵀ / √head_dim) V for tensors of [batch, heads, seq, head_dim]; K and V may have
    fewer heads. It has no parameters: a model learns the projections around it.

        attn = cuflash.FlashAttention(head_dim=64, causal=True)
        out = attn(Q, K, V)
        out.sum().backward()
    """

    def __init__(self, head_dim=64, *, causal=False, window_size=(-1, -1)):
        super().__init__()
        check_options(causal=causal, window_size=window_size)
        _check_head_dim(head_dim)
        self.head_dim = head_dim
        self.causal = causal
        self.window_size = tuple(window_size)

    def forward(self, Q, K, V):
        """The attention of Q to K and V."""
        if isinstance(Q, Tensor) and Q.dim() == 4 and Q.size(3) != self.head_dim:
            raise ValueError(f"Q is {list(Q.shape)}; its last dimension must be this module's "
                             f"head_dim, {self.head_dim}")
        return attention_bhsd(Q, K, V, self.causal, self.window_size)

    def extra_repr(self):
        """The module's options, for print()."""
        return (f"head_dim={self.head_dim}, causal={self.causal}, "
                f"window_size={self.window_size}")


def _check_head_dim(head_dim):
    """Raises if no stage takes this head_dim, on any device and in any dtype."""
    problem = capi.Problem(batch=1, heads_q=1, heads_kv=1, seq_q=1, seq_kv=1, head_dim=head_dim,
                           dtype=capi.DTYPES.index("f16"), causal=False, softmax_scale=1.0)
    try:
        library.first().chosen_stage("forward", problem)
    except capi.CuflashError as error:
        if error.code in (capi.ErrorCode.INVALID_DIMENSION, capi.ErrorCode.UNSUPPORTED_HEAD_DIM):
            raise
