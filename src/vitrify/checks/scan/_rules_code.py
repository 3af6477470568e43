"""Rules about code: what runs when the file is loaded, built, opened or used."""

from __future__ import annotations

from vitrify.checks.scan._rule import DO_NOT_USE, READ_IT, SAVE_AGAIN, UPDATE, WITHOUT, Rule

CODE: dict[str, Rule] = {
    "untrusted-global": Rule(
        "Names code that nobody has trusted",
        "Loading it imports or calls a class or function that is not on the list of names known to be "
        "harmless in the way they are used. That can be a class of your own, or a command on your "
        "machine.",
        READ_IT,
    ),
    "extension-code": Rule(
        "An extension code",
        "The pickle names a class or function by a number that this process may have registered, so that "
        "nobody can say which.",
        DO_NOT_USE,
    ),
    "python-code": Rule(
        "Python code",
        "The file is Python source or bytecode, which runs when it is imported: by trust_remote_code, a "
        "handler, a custom object.",
        READ_IT,
    ),
    "lambda-code": Rule(
        "Code in a Lambda layer",
        "The model holds marshalled Python bytecode, which runs when the model is built or called.",
        WITHOUT,
    ),
    "keras-lambda": Rule(
        "A Lambda layer",
        "Keras runs the Python code that is in the layer when it loads the model.",
        WITHOUT,
    ),
    "pickled-module": Rule(
        "A pickle inside of a layer",
        "Loading the model unpickles it, which runs what it names.",
        WITHOUT,
    ),
    "module-hooks": Rule(
        "Hooks on a module",
        "The hooks run whenever the model predicts.",
        WITHOUT,
    ),
    "tensor-state": Rule(
        "A state on what rebuilds a tensor",
        "No writer puts one there; it changes what the function does for everybody.",
        DO_NOT_USE,
    ),
    "object-array": Rule(
        "An array of Python objects",
        "Its content is a pickle, which runs what it names.",
        WITHOUT,
    ),
    "script": Rule(
        "A script",
        "The file starts with an interpreter's name: it is a program that runs when started.",
        READ_IT,
    ),
    "template": Rule(
        "A template that reaches further than a chat template has to",
        "Whoever renders it with a plain Jinja environment lets it reach Python's objects, and through them anything.",
        "Do not render it outside a sandbox; replace the template with the one that the model's authors publish.",
    ),
    "native-code": Rule(
        "Machine code",
        "It holds machine code, or is handed to some: that runs when it is loaded, and cannot be judged here.",
        READ_IT,
    ),
    "native-library": Rule(
        "Names a native library",
        "Loading it loads a shared library by name or path, whose code then runs.",
        READ_IT,
    ),
    "native-operator": Rule(
        "An operator that hands over to native code",
        "The operator takes a compiled engine or library from the model and runs it.",
        WITHOUT,
    ),
    "native-filter": Rule(
        "A filter that a plugin has to provide",
        "Reading these data makes the library look for a plugin, a shared library, and run it.",
        SAVE_AGAIN,
    ),
    "codec": Rule(
        "A codec that makes more than numbers",
        "Its bytes go through a codec that may run code, such as one for pickles.",
        SAVE_AGAIN,
    ),
    "custom-handler": Rule(
        "A handler that is not the library's own",
        "Who reads these data is code elsewhere.",
        READ_IT,
        "not checked",
    ),
    "custom-class": Rule(
        "A value of a registered class",
        "Reading it calls what is registered in the process under that name.",
        READ_IT,
    ),
    "custom-objective": Rule(
        "An objective that the library does not have",
        "What it makes of the trees is code elsewhere.",
        READ_IT,
        "not checked",
    ),
    "python-operator": Rule(
        "An operator that runs Python",
        "The graph calls Python code or a function registered under a name.",
        WITHOUT,
    ),
    "python-callback": Rule(
        "A callback into Python",
        "The compiled module calls back into a Python function of the process.",
        WITHOUT,
    ),
    "file-operator": Rule(
        "An operator that touches files",
        "The graph reads or writes files on the machine that it runs on.",
        WITHOUT,
    ),
    "custom-operator": Rule(
        "An operator of a foreign library",
        "The model runs only with an operator library that is not part of its runtime; that library's code then runs.",
        READ_IT,
    ),
    "foreign-operator": Rule(
        "An operator that the framework does not have",
        "The program calls an operator by a name that code outside of the framework has to register.",
        READ_IT,
    ),
    "opaque-operator": Rule(
        "An operator whose work is hidden",
        "What it does is compiled or encoded and cannot be judged here.",
        WITHOUT,
        "not checked",
    ),
    "installs-packages": Rule(
        "Installs packages from elsewhere",
        "Serving the model installs packages from an address, a path or another index, and so runs their code.",
        READ_IT,
    ),
    "operator-reaches-out": Rule(
        "An operator that reaches out of the model",
        "The program reads or writes files, talks to other machines or prints what it is told to.",
        WITHOUT,
    ),
    "computed-operator": Rule(
        "An operator whose name is hidden",
        "The program keeps an operator as a value, so that nobody can say what it calls.",
        WITHOUT,
    ),
    "foreign-class": Rule(
        "A class that the framework does not have",
        "The program uses a class that native code outside of the framework has to register.",
        READ_IT,
    ),
    "custom-call": Rule(
        "A call to code outside of the model",
        "The module calls a target by name.",
        READ_IT,
    ),
    "unknown-function": Rule(
        "A function that the format does not have",
        "The file calls a function that neither it nor its language has: an engine's own code.",
        READ_IT,
    ),
    "session-config": Rule(
        "Configures the runtime's session",
        "The model's metadata sets options of the runtime that opens it, which only its user should.",
        SAVE_AGAIN,
    ),
    "unknown-operator": Rule(
        "An operator that is not known here",
        "What it does could not be judged.",
        UPDATE,
        "not checked",
    ),
    "unknown-layer": Rule(
        "A layer that is not known here",
        "What it does could not be judged.",
        UPDATE,
        "not checked",
    ),
    "unknown-model": Rule(
        "A kind of model that is not known here",
        "What it does could not be judged.",
        UPDATE,
        "not checked",
    ),
    "unknown-dialect": Rule(
        "Operations that are not known here",
        "A dialect may do anything.",
        UPDATE,
        "not checked",
    ),
    "unread-program": Rule(
        "A program that was not checked",
        "Its runtime trusts its instructions and its memory plan, which were not looked at.",
        "Use it only where you trust its author.",
        "not checked",
    ),
    "keras-metadata": Rule(
        "Keras metadata that could not be read",
        "It may name code, and could not be looked at.",
        SAVE_AGAIN,
        "not checked",
    ),
}
