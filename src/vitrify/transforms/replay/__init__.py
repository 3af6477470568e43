"""Replay: an ONNX graph, node by node, on the operators of another framework.

So a model gets from the hub to where no other road leads: to PyTorch's programs, TensorFlow's graphs and JAX's modules,
and from there to what is made of those.

* ``walk``: the graph made ready (functions inlined, one operator set), and the walk over it; what is constant is
  computed on the way and stays NumPy's, so that shapes which are known stay known;
* ``labels``: text that a classifier looks up last leaves the graph, and is looked up by the session;
* ``torch_ops``, ``tensorflow_ops``, ``jax_ops``: the operators of one framework, each a function with ONNX's semantics.

To teach a framework an operator, write a function in its file::

    @op("LeakyRelu")
    def leaky_relu(node: Node, x: Any) -> Any:
        return torch.nn.functional.leaky_relu(x, node.get("alpha", 0.01))
"""
