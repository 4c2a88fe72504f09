"""One module an RPC, called as its method in snake_case. Each has ``handle``, which decodes, asks the engine and encodes, and
nothing that another one needs:

    from symd.server.call import Call
    from symd.server.service_context import ServiceContext

    def handle(service: ServiceContext, request: GetThingRequest, call: Call) -> GetThingResponse:
        return to_response(service.engine.thing(*from_request(request)))

``service`` is what the daemon consists of, ``call`` says who asks and whether they still wait (named ``_call`` where nobody needs
it). It runs in a thread of the method's lane. A method that streams takes or returns an iterator of messages, in a thread of its own that waits; what
it works at is done in a lane (``Lane.run_for``, ``Lane.each_for``). One that has ``failed`` too is asked once for each request of the stream. Whatever
is raised becomes a status in ``server/guard.py``.
"""
