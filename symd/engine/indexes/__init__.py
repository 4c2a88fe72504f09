"""The life of an index: partial, whole, stored, or a failure that is remembered.

An index answers every question about a module by search. Making one takes a while, so there are layers, and a question
is answered by the first that can:

1. *Open*: a whole index in memory or mapped, in ``IndexCache``. Looking there takes no lock; it is all that most
   questions ever do. What was used longest ago is closed when the open ones take more than ``Limits.open_indexes``
   bytes.
2. *Partial*: a module that is opened and of which only what the questions so far needed is decoded (``PartialIndex``).
   It has the format of a whole one and gives the same answers, or none: then the next layer is asked. A process that
   answers a few questions about one file and ends (``index.partial``) goes no further than it must. A store's module
   has one when it has many code objects and the questions name kernels, so that the first answer need not wait for all
   of them; the whole is made meanwhile, where there is somewhere else to make it.
3. *Stored*: the index file that the store has under the module's digest and ``symd.index.VERSION``. One that is
   damaged, or is not what the schema says, is made anew. The first question for one address is answered from the file,
   without opening it (``search_stored_index``): what is read of it is compared with its checksums; the next one opens
   it.
4. *Built*: made from the module's bytes and put into the store. Whoever asks first builds; others who ask for the same
   module wait.

Whoever reads a module's bytes is a ``Reader``: in a daemon another process, for large modules and for small. What it
makes of them comes back as an index file, which is checked before anything of it is believed.

*Failures* are answers too. That bytes are malformed, unsupported or beyond a limit is the same every time: the store
keeps the error under digest and version (``store.catalogued`` says which kinds last), and it is raised again without
another look at the bytes, unless the limit that it names has been raised since. A module that was just added and cannot
be indexed is taken out of the store again; what is remembered stays. A new ``symd.index.VERSION`` forgets indexes and
failures alike, because both are kept under it.

*Attempts* are counted before they begin, so that bytes which end the process that reads them, or this one, do so
``MAX_ATTEMPTS`` times and not forever: then the module is malformed, and that is remembered. An answer or an error
forgets the count.

*Damage*: where the bytes of a stored module are not those of its digest any more, its file is set aside. Its index,
which has a checksum of its own, goes on answering, and adding the same bytes again mends the rest.

*Ahead*: the index of a module that came piece by piece is begun when its bytes are whole and hashed, while the disk
still takes them in; nothing is kept of it before the module's own row is.

*Admission*: ``add_bytes``, ``add_upload`` and ``index_stored`` take a module whose bytes are at hand through the layers
once, so that what is in the catalogue with a format has been opened, and tell those who listen that it is there.

``manager`` has all that; ``open_indexes`` what is kept in memory, and ``builds`` how an index is made: once, counted,
ahead or in the background."""
