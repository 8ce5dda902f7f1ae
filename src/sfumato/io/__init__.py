"""Sources that stream and sinks that appear whole or not at all: NumPy arrays, tables under a schema, media.

Readers and writers of media are loaded when they are first used.
"""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.io.array_files import ArraySink as ArraySink
    from sfumato.io.array_files import ArraySource as ArraySource
    from sfumato.io.array_files import array_names as array_names
    from sfumato.io.array_files import open_archive as open_archive
    from sfumato.io.array_files import open_array as open_array
    from sfumato.io.atomic import First as First
    from sfumato.io.atomic import atomic_folder as atomic_folder
    from sfumato.io.atomic import atomic_output as atomic_output
    from sfumato.io.atomic import require_room as require_room
    from sfumato.io.atomic import reserved as reserved
    from sfumato.io.atomic import storage_fault as storage_fault
    from sfumato.io.atomic import sync as sync
    from sfumato.io.atomic import unsettled as unsettled
    from sfumato.io.atomic import write_whole as write_whole
    from sfumato.io.atomic import writing as writing
    from sfumato.io.audio_files import SoundSink as SoundSink
    from sfumato.io.audio_files import open_sound as open_sound
    from sfumato.io.formats import MEDIA as MEDIA
    from sfumato.io.formats import Kind as Kind
    from sfumato.io.formats import file_to_read as file_to_read
    from sfumato.io.formats import kind_of as kind_of
    from sfumato.io.formats import known_kinds as known_kinds
    from sfumato.io.formats import released_suffix as released_suffix
    from sfumato.io.formats import same_kind as same_kind
    from sfumato.io.formats import suffix_of as suffix_of
    from sfumato.io.image_datasets import ArrayPair as ArrayPair
    from sfumato.io.image_datasets import ClassFolders as ClassFolders
    from sfumato.io.image_datasets import DatasetSource as DatasetSource
    from sfumato.io.image_datasets import check_top as check_top
    from sfumato.io.image_datasets import is_archive as is_archive
    from sfumato.io.image_datasets import open_dataset as open_dataset
    from sfumato.io.image_datasets import stored_values as stored_values
    from sfumato.io.image_datasets import write_archive as write_archive
    from sfumato.io.image_datasets import write_class_folders as write_class_folders
    from sfumato.io.image_files import check_storable as check_storable
    from sfumato.io.image_files import encode_picture as encode_picture
    from sfumato.io.image_files import picture_header as picture_header
    from sfumato.io.image_files import read_picture as read_picture
    from sfumato.io.image_files import write_picture as write_picture
    from sfumato.io.jpeg import encode_many as encode_many
    from sfumato.io.object_store import Remote as Remote
    from sfumato.io.object_store import RemoteObject as RemoteObject
    from sfumato.io.retry import Fault as Fault
    from sfumato.io.retry import RetryPolicy as RetryPolicy
    from sfumato.io.schema import Schema as Schema
    from sfumato.io.schema import single_names as single_names
    from sfumato.io.stores import LocalStore as LocalStore
    from sfumato.io.stores import RemoteStore as RemoteStore
    from sfumato.io.stores import Store as Store
    from sfumato.io.stores import is_remote as is_remote
    from sfumato.io.stores import named as named
    from sfumato.io.table_files import TableSink as TableSink
    from sfumato.io.table_files import TableSource as TableSource
    from sfumato.io.table_files import cuts_of as cuts_of
    from sfumato.io.table_files import quoted as quoted
    from sfumato.io.temporary_folder import private_folder as private_folder
    from sfumato.io.video_files import VideoSink as VideoSink
    from sfumato.io.video_files import VideoSource as VideoSource
    from sfumato.io.video_files import open_video as open_video
    from sfumato.io.video_files import video_container as video_container

__all__ = [
    "MEDIA",
    "ArrayPair",
    "ArraySink",
    "ArraySource",
    "ClassFolders",
    "DatasetSource",
    "Fault",
    "First",
    "Kind",
    "LocalStore",
    "Remote",
    "RemoteObject",
    "RemoteStore",
    "RetryPolicy",
    "Schema",
    "SoundSink",
    "Store",
    "TableSink",
    "TableSource",
    "VideoSink",
    "VideoSource",
    "array_names",
    "atomic_folder",
    "atomic_output",
    "check_storable",
    "check_top",
    "cuts_of",
    "encode_many",
    "encode_picture",
    "file_to_read",
    "is_archive",
    "is_remote",
    "kind_of",
    "known_kinds",
    "named",
    "open_archive",
    "open_array",
    "open_dataset",
    "open_sound",
    "open_video",
    "picture_header",
    "private_folder",
    "quoted",
    "read_picture",
    "released_suffix",
    "require_room",
    "reserved",
    "same_kind",
    "single_names",
    "storage_fault",
    "stored_values",
    "suffix_of",
    "sync",
    "unsettled",
    "video_container",
    "write_archive",
    "write_class_folders",
    "write_picture",
    "write_whole",
    "writing",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "ArraySink": "array_files",
            "ArraySource": "array_files",
            "array_names": "array_files",
            "open_archive": "array_files",
            "open_array": "array_files",
            "First": "atomic",
            "atomic_folder": "atomic",
            "atomic_output": "atomic",
            "require_room": "atomic",
            "reserved": "atomic",
            "storage_fault": "atomic",
            "sync": "atomic",
            "unsettled": "atomic",
            "write_whole": "atomic",
            "writing": "atomic",
            "SoundSink": "audio_files",
            "open_sound": "audio_files",
            "MEDIA": "formats",
            "Kind": "formats",
            "file_to_read": "formats",
            "kind_of": "formats",
            "known_kinds": "formats",
            "released_suffix": "formats",
            "same_kind": "formats",
            "suffix_of": "formats",
            "ArrayPair": "image_datasets",
            "ClassFolders": "image_datasets",
            "DatasetSource": "image_datasets",
            "check_top": "image_datasets",
            "is_archive": "image_datasets",
            "open_dataset": "image_datasets",
            "stored_values": "image_datasets",
            "write_archive": "image_datasets",
            "write_class_folders": "image_datasets",
            "check_storable": "image_files",
            "encode_picture": "image_files",
            "picture_header": "image_files",
            "read_picture": "image_files",
            "write_picture": "image_files",
            "encode_many": "jpeg",
            "Remote": "object_store",
            "RemoteObject": "object_store",
            "Fault": "retry",
            "RetryPolicy": "retry",
            "Schema": "schema",
            "single_names": "schema",
            "LocalStore": "stores",
            "RemoteStore": "stores",
            "Store": "stores",
            "is_remote": "stores",
            "named": "stores",
            "TableSink": "table_files",
            "TableSource": "table_files",
            "cuts_of": "table_files",
            "quoted": "table_files",
            "private_folder": "temporary_folder",
            "VideoSink": "video_files",
            "VideoSource": "video_files",
            "open_video": "video_files",
            "video_container": "video_files",
        },
    )
